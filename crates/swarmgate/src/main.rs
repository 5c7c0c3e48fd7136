use std::process::ExitCode;

fn main() -> ExitCode {
    // A keeper outlives the gate and must stay small: it starts nothing of the rest.
    if std::env::args_os().nth(1).is_some_and(|command| command == "keeper") {
        return swarmgate::keeper::main(std::env::args_os().skip(2));
    }
    swarmgate::cli::main()
}
