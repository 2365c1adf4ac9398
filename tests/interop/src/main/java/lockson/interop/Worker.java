/* A named thread of the peer: one holder of locks for each client. */
package lockson.interop;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

final class Worker {
    private final ExecutorService executor;
    // Set from the start to the end of a call that may be cancelled.
    private Thread running;
    private boolean waits;
    private boolean cancelled;

    Worker(String name) {
        executor = Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Runs the work after what was submitted before; it must not throw, as a new thread would be another holder. */
    void submit(Runnable work) {
        executor.execute(work);
    }

    /** Runs both on this thread. A cancel interrupts the call; during the preparation it takes effect after that. */
    <T> T interruptibly(Runnable preparation, Callable<T> call) throws Exception {
        synchronized (this) {
            running = Thread.currentThread();
            cancelled = false;
        }
        try {
            preparation.run();
            synchronized (this) {
                waits = true;
                if (cancelled) {
                    throw new InterruptedException("cancelled before the first try");
                }
            }
            return call.call();
        } finally {
            synchronized (this) {
                running = null;
                waits = false;
                // A cancel that came too late for this call must not hit the next one.
                Thread.interrupted();
            }
        }
    }

    synchronized void cancel() {
        cancelled = running != null;
        if (waits) {
            running.interrupt();
        }
    }
}
