//! Processors: how many this process may use, and binding threads to some of them.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Processors that this process may use.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Binds the calling thread to these processors; those there are none of are left out. False when
/// none is left, or the system refuses: then it runs where it ran.
pub fn bind(processors: &[usize]) -> bool {
    let mut set = CpuSet::new();
    for n in processors.iter().filter(|n| **n < CpuSet::MAX_CPU) {
        set.set(*n);
    }
    set.count() > 0 && sched_setaffinity(None, &set).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_bound_to_a_processor_there_is() {
        std::thread::spawn(|| {
            assert!(!bind(&[]) && !bind(&[usize::MAX]));
            let mine: Vec<usize> = (0..1024).collect();
            assert!(bind(&mine));
        })
        .join()
        .unwrap();
        assert!(available() >= 1);
    }
}
