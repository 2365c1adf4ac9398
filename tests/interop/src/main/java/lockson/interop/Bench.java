/*
 * The workloads of benches/ on real Redisson, by the same orders and with the same answers as benches/common/serve.rs.
 *
 *   run WORKLOAD SECONDS NAME   {"counts":[...],"seconds":...,"held_us":...,"p50_us":...,"p99_us":...,"max_us":...}
 *   take NAME                   {"at":...}, nanoseconds of the system's clock when the lock was got
 *   release                     {"at":...}, just before the release began
 *
 * Its arguments are the URLs of the servers. It says `ready` first, and ends with its input.
 */
package lockson.interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Bench {
    private final List<RedissonClient> clients = new ArrayList<>();
    private RLock taken;
    private volatile boolean over;

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        LinkedBlockingQueue<String> orders = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(orders), "orders");
        reader.setDaemon(true);
        reader.start();
        Bench bench = new Bench();
        for (String url : args) {
            Config config = new Config();
            // All else as Redisson ships it.
            config.useSingleServer().setAddress(url.replaceAll("/$", ""));
            bench.clients.add(Redisson.create(config));
        }
        answers.println("ready");
        while (true) {
            answers.println(bench.answer(orders.take().split(" ")));
        }
    }

    private static void read(LinkedBlockingQueue<String> orders) {
        try (var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                orders.add(line);
            }
        } catch (IOException e) {
            System.err.println("standard input: " + e);
        }
        // Whatever is under way: nobody is there any more to hear of it.
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] order) {
        try {
            switch (order[0]) {
                case "run":
                    return run(order[1], Double.parseDouble(order[2]), order[3]);
                case "take":
                    taken = clients.get(0).getLock(order[1]);
                    taken.lock();
                    return at(Instant.now());
                case "release":
                    String before = at(Instant.now());
                    taken.unlock();
                    return before;
                default:
                    throw new IllegalArgumentException("no order: " + String.join(" ", order));
            }
        } catch (Exception e) {
            return "{\"error\":\"" + e.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}";
        }
    }

    private static String at(Instant now) {
        return "{\"at\":" + (now.getEpochSecond() * 1_000_000_000L + now.getNano()) + "}";
    }

    private String run(String workload, double seconds, String name) throws Exception {
        String[] words = workload.split("/");
        int threads = Integer.parseInt(words[1]);
        long hold = words.length > 2 ? Long.parseLong(words[2]) * 1000 : 0;
        over = false;
        CyclicBarrier start = new CyclicBarrier(threads + 1);
        List<Worker> workers = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            workers.add(new Worker(locks(words[0], name, number), number, hold, start));
        }
        workers.forEach(Thread::start);
        start.await();
        long began = System.nanoTime();
        TimeUnit.NANOSECONDS.sleep((long) (seconds * 1e9));
        over = true;
        for (Worker worker : workers) {
            worker.join();
        }
        long time = System.nanoTime() - began;
        for (Worker worker : workers) {
            if (worker.failure != null) {
                throw worker.failure;
            }
        }
        return summary(workers, time);
    }

    /** What a thread takes in its rounds: ten of them, one after the other. */
    @SuppressWarnings("deprecation")
    private RLock[] locks(String what, String name, int number) {
        RedissonClient client = clients.get(0);
        RLock[] locks = new RLock[10];
        switch (what) {
            case "distinct" -> Arrays.fill(locks, client.getLock(name + ":" + number));
            case "hot" -> Arrays.fill(locks, client.getLock(name));
            case "fair" -> Arrays.fill(locks, client.getFairLock(name));
            case "read" -> Arrays.fill(locks, client.getReadWriteLock(name).readLock());
            case "mixed" -> {
                RReadWriteLock both = client.getReadWriteLock(name);
                Arrays.fill(locks, both.readLock());
                locks[0] = both.writeLock();
            }
            case "multi" -> {
                RLock[] members = new RLock[3];
                for (int member = 0; member < members.length; member++) {
                    members[member] = client.getLock(name + ":" + member);
                }
                Arrays.fill(locks, client.getMultiLock(members));
            }
            case "red" -> {
                RLock[] members = clients.stream().map(one -> one.getLock(name + ":" + number)).toArray(RLock[]::new);
                Arrays.fill(locks, client.getRedLock(members));
            }
            default -> throw new IllegalArgumentException("no workload: " + what);
        }
        return locks;
    }

    private final class Worker extends Thread {
        private final RLock[] locks;
        private final long hold;
        private final CyclicBarrier start;
        private int round;
        private long held;
        private long[] waits = new long[1 << 16];
        private int count;
        private Exception failure;

        Worker(RLock[] locks, int number, long hold, CyclicBarrier start) {
            this.locks = locks;
            this.round = number;
            this.hold = hold;
            this.start = start;
        }

        @Override
        public void run() {
            try {
                start.await();
                while (!over) {
                    RLock lock = locks[++round % locks.length];
                    long asked = System.nanoTime();
                    lock.lock();
                    long got = System.nanoTime();
                    if (hold > 0) {
                        // It may wake up early for no reason.
                        for (long left = hold; left > 0; left = got + hold - System.nanoTime()) {
                            LockSupport.parkNanos(left);
                        }
                        held += System.nanoTime() - got;
                    }
                    lock.unlock();
                    if (count == waits.length) {
                        waits = Arrays.copyOf(waits, count * 2);
                    }
                    waits[count++] = got - asked;
                }
            } catch (Exception e) {
                failure = e;
                over = true;
            }
        }
    }

    private static String summary(List<Worker> workers, long time) {
        long[] all = workers.stream().flatMapToLong(one -> Arrays.stream(one.waits, 0, one.count)).sorted().toArray();
        List<Integer> counts = workers.stream().map(one -> one.count).toList();
        double held = workers.stream().mapToLong(one -> one.held).sum() / 1e3 / Math.max(1, all.length);
        return "{\"counts\":" + counts + ",\"seconds\":" + time / 1e9 + ",\"held_us\":" + held + ",\"p50_us\":" + at(all, 0.50)
                + ",\"p99_us\":" + at(all, 0.99) + ",\"max_us\":" + at(all, 1.0) + "}";
    }

    private static double at(long[] sorted, double part) {
        int rank = (int) Math.ceil(sorted.length * part);
        return sorted.length == 0 ? 0 : sorted[Math.max(0, rank - 1)] / 1e3;
    }
}
