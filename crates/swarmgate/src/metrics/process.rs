//! The process itself, under the names that every Prometheus client has for it.

use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{level, number};

#[derive(Debug, Clone)]
pub(super) struct Process {
    started: SystemTime,
}

impl Default for Process {
    /// What counts begins with the process.
    fn default() -> Self {
        Self { started: SystemTime::now() }
    }
}

type Seconds = Gauge<f64, AtomicU64>;

impl Process {
    pub(super) fn register(&self, to: &mut Registry) {
        let start = Seconds::default();
        start.set(self.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()));
        to.register("start_time_seconds", "When the gate was started, since 1970", start);
        let cpu = Counter::<f64, AtomicU64>::default();
        cpu.inc_by(cpu_seconds());
        to.register("cpu_seconds", "Time that the gate has spent computing", cpu);
        if let Some(bytes) = resident() {
            let memory = Gauge::<i64>::default();
            memory.set(bytes);
            to.register("resident_memory_bytes", "Memory of the gate", memory);
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            to.register("open_fds", "File descriptors in use; each player takes two", level(open.count()));
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            to.register("max_fds", "File descriptors that there may be", level(most));
        }
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    std::time::Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64())
}

/// In `/proc/self/status` as `VmRSS: 12345 kB`.
fn resident() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(number(kilobytes.saturating_mul(1024)))
}
