//! Work in parts that a caller waits for: engines hand it over, so that they know no threads.

/// Works jobs off at once: the last one here, the others on a thread each, until all are done. A job is lost where
/// no thread can be made for it; the caller that made the jobs sees it in their results.
pub fn run_at_once(mut jobs: Vec<Box<dyn FnOnce() + Send + '_>>) {
    let own = jobs.pop();
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .map(|job| std::thread::Builder::new().spawn_scoped(scope, job))
            .collect();
        if let Some(job) = own {
            job();
        }
        for thread in threads.into_iter().flatten() {
            // One that panicked left no result.
            drop(thread.join());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_done_and_a_panic_stays_in_its_own() {
        let mut done = [false; 4];
        let mut jobs: Vec<Box<dyn FnOnce() + Send + '_>> = Vec::new();
        for (at, done) in done.iter_mut().enumerate() {
            jobs.push(Box::new(move || {
                assert_ne!(at, 1);
                *done = true;
            }));
        }
        run_at_once(jobs);
        assert_eq!(done, [true, false, true, true]);
        run_at_once(Vec::new());
    }
}
