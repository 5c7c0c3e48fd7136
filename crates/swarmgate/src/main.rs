use std::process::ExitCode;

/// Sessions live long and are set up through memory that does not: this allocator gives the holes back.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // A keeper outlives the gate and must stay small: it starts nothing of the rest.
    if std::env::args_os().nth(1).is_some_and(|command| command == "keeper") {
        return swarmgate::keeper::main(std::env::args_os().skip(2));
    }
    swarmgate::cli::main()
}
