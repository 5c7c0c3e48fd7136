//! A proxy under measurement: one process, and what it has used.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::time::sleep;

pub struct Process {
    child: Child,
    cgroup: Option<Cgroup>,
}

impl Process {
    /// Starts it and waits until it listens.
    pub async fn start(mut command: Command, listens: SocketAddr) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("{program:?}"))?;
        let cgroup = Cgroup::around(child.id());
        let mut process = Self { child, cgroup };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(listens).await.is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("it ended at once: {status}");
            }
            if Instant::now() > deadline {
                bail!("it does not listen after 10 s");
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(process)
    }

    /// User and system time of all its threads, in nanoseconds.
    pub fn cpu(&self) -> Result<f64> {
        let mut total = 0.0;
        for task in fs::read_dir(self.path("task"))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            total += text.split(' ').next().context("schedstat")?.parse::<f64>()?;
        }
        Ok(total)
    }

    /// Proportional share of user memory, in KiB.
    pub fn user_kib(&self) -> Result<f64> {
        let text = fs::read_to_string(self.path("smaps_rollup"))?;
        let line =
            text.lines().find_map(|line| line.strip_prefix("Pss:")).context("smaps_rollup has no Pss")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Kernel memory charged to it, in KiB, where there is a memory cgroup to be had.
    pub fn kernel_kib(&self) -> Option<f64> {
        self.cgroup.as_ref()?.kernel_kib()
    }

    pub fn descriptors(&self) -> Result<f64> {
        Ok(fs::read_dir(self.path("fd"))?.count() as f64)
    }

    pub async fn stop(mut self) -> Result<()> {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id()).into()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A memory cgroup of its own, removed with it.
struct Cgroup(PathBuf);

impl Cgroup {
    fn around(pid: u32) -> Option<Self> {
        let parent = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
            .into_iter()
            .find(|path| fs::exists(format!("{path}/cgroup.procs")).unwrap_or(false))?;
        let group = Self(format!("{parent}/swarmgate-bench-{pid}").into());
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        group.kernel_kib().is_some().then_some(group)
    }

    fn kernel_kib(&self) -> Option<f64> {
        let v1 = fs::read_to_string(self.0.join("memory.kmem.usage_in_bytes")).ok();
        let bytes: f64 = match v1 {
            Some(text) => text.trim().parse().ok()?,
            None => fs::read_to_string(self.0.join("memory.stat"))
                .ok()?
                .lines()
                .find_map(|line| line.strip_prefix("kernel "))?
                .parse()
                .ok()?,
        };
        Some(bytes / 1024.0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
