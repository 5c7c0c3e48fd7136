//! What the scripts do to the machine they run on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const OWN: &str = "#!/bin/sh\nexit 0\n";

struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    /// With a policy of its owner's, or none.
    fn new(policy: Option<&str>) -> Self {
        let machine = Self { directory: tempfile::tempdir().unwrap() };
        if let Some(policy) = policy {
            fs::write(machine.policy(), policy).unwrap();
        }
        machine
    }

    fn policy(&self) -> PathBuf {
        self.directory.path().join("policy-rc.d")
    }

    /// Runs this while services are not started; `$POLICY_RC_D` is the policy.
    fn run(&self, script: &str) -> ExitStatus {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/without-services");
        // What is started in the background ignores SIGINT, and so does what it starts.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(program);
        command.args(["sh", "-c", script]).env("POLICY_RC_D", self.policy());
        command.status().unwrap()
    }

    fn assert_as_before(&self, policy: Option<&str>) {
        assert_eq!(fs::read_to_string(self.policy()).ok().as_deref(), policy);
        assert_eq!(fs::read_dir(self.directory.path()).unwrap().count(), usize::from(policy.is_some()));
    }
}

#[test]
fn services_stay_down_meanwhile_and_everything_is_as_before_after_it() {
    const REFUSES: &str = "sh \"$POLICY_RC_D\"; test $? = 101";
    for before in [None, Some(OWN)] {
        for (script, code) in
            [("true", 0), ("exit 7", 7), ("kill -TERM $PPID", 143), ("kill -INT $PPID", 130)]
        {
            let machine = Machine::new(before);
            let status = machine.run(&format!("{{ {REFUSES}; }} && {script}"));
            assert_eq!(status.code(), Some(code), "{script}");
            machine.assert_as_before(before);
        }
        // Nothing can be done about this one at once.
        let machine = Machine::new(before);
        let status = machine.run(&format!("{{ {REFUSES}; }} && kill -KILL $PPID"));
        assert_eq!(status.signal(), Some(9));
        assert!(machine.run(REFUSES).success());
        machine.assert_as_before(before);
    }
}
