use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|command| command == "keeper") {
        return swarmgate::keeper::main(std::env::args_os().skip(2));
    }
    ExitCode::SUCCESS
}
