/* One operation on one lock, as a request asks for it. */
package lockson.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.redisson.api.RLock;

/** The times are in milliseconds; a lease below 0 is none. */
record LockCall(String op, String type, String name, long waitTime, long leaseTime) {
    private static final Set<String> TYPES = Set.of("lock", "fair", "read", "write", "multi", "red", "fenced", "spin");

    private static final Set<String> JOINED = Set.of("multi", "red");

    private static final Map<String, List<String>> ARGUMENTS = Map.ofEntries(
            Map.entry("lock", List.of()),
            Map.entry("lockL", List.of("LEASE")),
            Map.entry("tryLock", List.of()),
            Map.entry("tryLockW", List.of("WAIT")),
            Map.entry("tryLockWL", List.of("WAIT", "LEASE")),
            Map.entry("lockInterruptibly", List.of()),
            Map.entry("unlock", List.of()),
            Map.entry("drop", List.of()),
            Map.entry("forceUnlock", List.of()),
            Map.entry("isLocked", List.of()),
            Map.entry("isHeld", List.of()),
            Map.entry("holdCount", List.of()),
            Map.entry("ttl", List.of()),
            Map.entry("holder", List.of()),
            Map.entry("token", List.of()));

    static LockCall parse(List<String> words) throws Refusal {
        String op = words.get(0);
        List<String> arguments = ARGUMENTS.get(op);
        if (arguments == null) {
            throw Refusal.unsupported("no operation " + op);
        }
        if (words.size() > 1 && !TYPES.contains(words.get(1))) {
            throw Refusal.unsupported("no type " + words.get(1));
        }
        if (words.size() != 3 + arguments.size()) {
            throw Refusal.usage("expected: " + (op + " TYPE LOCK " + String.join(" ", arguments)).strip());
        }
        long wait = 0;
        long lease = -1;
        for (int i = 0; i < arguments.size(); i++) {
            long value = number(words.get(3 + i));
            if (arguments.get(i).equals("WAIT")) {
                wait = value;
            } else {
                lease = checkedLease(value);
            }
        }
        return new LockCall(op, words.get(1), words.get(2), wait, lease);
    }

    static long number(String word) throws Refusal {
        try {
            return Long.parseLong(word);
        } catch (NumberFormatException e) {
            throw Refusal.usage("not a whole number: " + word);
        }
    }

    String run(Peer peer, Client client, Worker worker) throws Exception {
        Client.Handle handle = client.handle(peer, type, name);
        RLock lock = handle.lock();
        Object value = switch (op) {
            case "lock", "lockL" -> {
                if (leaseTime < 0) {
                    lock.lock();
                } else {
                    lock.lock(leaseTime, MILLISECONDS);
                }
                yield null;
            }
            case "lockInterruptibly" -> interruptibly(client, worker, () -> {
                lock.lockInterruptibly();
                return null;
            });
            case "tryLock" -> lock.tryLock();
            case "tryLockW", "tryLockWL" -> interruptibly(client, worker, () -> timedTry(lock));
            case "unlock" -> {
                checkHeld(handle);
                lock.unlock();
                yield null;
            }
            case "drop" -> {
                try {
                    lock.unlock();
                } catch (RuntimeException e) {
                    System.err.println("drop of " + name + ": " + e);
                }
                yield null;
            }
            case "forceUnlock" -> lock.forceUnlock();
            case "isLocked" -> lock.isLocked();
            case "isHeld" -> isHeld(handle);
            case "holdCount" -> lock.getHoldCount();
            case "ttl" -> lock.remainTimeToLive();
            case "holder" -> holder(handle);
            case "token" -> token(lock);
            default -> throw new AssertionError(op);
        };
        if (!JOINED.contains(type)) {
            client.hasConnected();
        }
        return String.valueOf(value);
    }

    private <T> T interruptibly(Client client, Worker worker, Callable<T> call) throws Exception {
        // Redisson's joined locks swallow an interrupt and begin again, so a cancel cannot end their wait.
        if (JOINED.contains(type)) {
            return call.call();
        }
        return worker.interruptibly(client::connect, call);
    }

    private boolean timedTry(RLock lock) throws InterruptedException {
        if (waitTime > 0) {
            return lock.tryLock(waitTime, leaseTime, MILLISECONDS);
        }
        // A fair lock stands in the queue for a moment in a timed try, even one of 0 ms; in tryLock() it does not.
        return leaseTime < 0 ? lock.tryLock() : lock.tryLock(0, leaseTime, MILLISECONDS);
    }

    // Redisson's joined locks do not answer this, so their members are asked.
    private boolean isHeld(Client.Handle handle) {
        long held = handle.members().stream().filter(this::holds).count();
        int needed = type.equals("red") ? handle.members().size() / 2 + 1 : handle.members().size();
        return held >= needed;
    }

    // Redisson's RedLock ignores what its members answer to a release.
    private void checkHeld(Client.Handle handle) throws Refusal {
        if (type.equals("red") && handle.members().stream().noneMatch(this::holds)) {
            throw Refusal.notHeld("this thread does not hold " + name);
        }
    }

    private String holder(Client.Handle handle) throws Refusal {
        long thread = Thread.currentThread().getId();
        String holders = handle.members().stream()
                .map(member -> holds(member) ? member.clientId() + ":" + thread : "-")
                .collect(Collectors.joining(","));
        if (!holders.contains(":")) {
            throw Refusal.notHeld("this thread does not hold " + name);
        }
        return holders;
    }

    private boolean holds(Client.Member member) {
        try {
            return member.lock().isHeldByCurrentThread();
        } catch (RuntimeException e) {
            // A RedLock lives on while a minority of its servers does not answer.
            if (type.equals("red")) {
                return false;
            }
            throw e;
        }
    }

    private Object token(RLock lock) throws ReflectiveOperationException, Refusal {
        if (!type.equals("fenced")) {
            throw Refusal.unsupported("only a fenced lock has a token");
        }
        if (!lock.isHeldByCurrentThread()) {
            throw Refusal.notHeld("this thread does not hold " + name);
        }
        // By reflection, through the interface: the type is unknown to the oldest versions.
        return Class.forName("org.redisson.api.RFencedLock").getMethod("getToken").invoke(lock);
    }

    private static long checkedLease(long lease) throws Refusal {
        if (lease == 0) {
            throw Refusal.config("a lease of 0 is no lease");
        }
        if (lease < -1) {
            throw Refusal.usage("a lease is -1 or a positive number of milliseconds");
        }
        return lease;
    }
}
