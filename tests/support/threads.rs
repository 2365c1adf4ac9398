//! The threads of this process.

use std::fs;

/// Their names, as the kernel has them: the first 15 bytes.
pub fn threads() -> Vec<String> {
    fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .collect()
}
