/*
 * The Java peer: real Redisson locks, driven by lines on standard input, for tests that put Java beside Rust.
 *
 * One request a line, one answer a line, in any order: a call that blocks answers late.
 *
 *   ID client NAME single URL WATCHDOG_MS [key=value ...]   ID OK <client uuid>
 *   ID CLIENT THREAD info                                   ID OK <client uuid> <thread id>
 *   ID CLIENT THREAD OP TYPE LOCK [ARG ...]                 ID OK <value>
 *   ID cancel THREAD   (or: interrupt)                      ID OK null
 *   ID shutdown CLIENT                                      ID OK null
 *   ID exit                                                 ID OK bye
 *
 * What fails answers `ID ERR <kind> <message>`. The end of the input ends the process as a crash would:
 * nothing is released. Types and operations are those of LockCall, keys of a client those of Client.
 * Every THREAD is one Java thread, shared by all clients, that lives as long as the process.
 */
package lockson.interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;

public final class Peer {
    private final PrintStream answers =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private final Map<String, CompletableFuture<Client>> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new HashMap<>();

    public static void main(String[] args) {
        Peer peer = new Peer();
        // Standard output belongs to the answers; whatever a library prints must not get between them.
        System.setOut(System.err);
        try (var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (!line.isBlank()) {
                    peer.handle(line.strip());
                }
            }
        } catch (IOException e) {
            System.err.println("standard input: " + e);
        }
        // Not System.exit: a crash runs no shutdown hooks.
        Runtime.getRuntime().halt(0);
    }

    /** The client of that name, once it is made. */
    Client client(String name) throws InterruptedException, Refusal {
        CompletableFuture<Client> made = known(name);
        try {
            return made.get();
        } catch (ExecutionException e) {
            throw Refusal.usage("client " + name + " could not be made");
        }
    }

    // Never blocks, except for `exit`: the end of the input must be seen at once.
    private void handle(String line) {
        List<String> words = Arrays.asList(line.split(" ", -1));
        String id = words.get(0);
        try {
            if (words.size() < 2 || words.contains("")) {
                throw Refusal.usage("words are separated by one space: " + line);
            }
            switch (words.get(1)) {
                case "client" -> create(id, words);
                case "cancel", "interrupt" -> cancel(id, words);
                case "shutdown" -> shutdown(id, words);
                case "exit" -> exit(id, words);
                default -> onThread(id, words);
            }
        } catch (Refusal refusal) {
            refuse(id, refusal);
        }
    }

    private void create(String id, List<String> words) throws Refusal {
        expect(words.size() >= 6, "ID client NAME single URL WATCHDOG_MS [key=value ...]");
        String name = words.get(2);
        if (!words.get(3).equals("single")) {
            throw Refusal.unsupported("no topology " + words.get(3));
        }
        Client.Settings settings = Client.Settings.parse(words.get(4), words.get(5), words.subList(6, words.size()));
        var made = new CompletableFuture<Client>();
        if (clients.putIfAbsent(name, made) != null) {
            throw Refusal.usage("client " + name + " exists");
        }
        start(() -> {
            try {
                Client client = new Client(settings);
                answer(id, client.id());
                made.complete(client);
            } catch (Throwable e) {
                clients.remove(name);
                made.completeExceptionally(e);
                refuse(id, e);
            }
        });
    }

    private void cancel(String id, List<String> words) throws Refusal {
        expect(words.size() == 3, "ID cancel THREAD");
        Worker worker = workers.get(words.get(2));
        if (worker != null) {
            worker.cancel();
        }
        answer(id, "null");
    }

    private void shutdown(String id, List<String> words) throws Refusal {
        expect(words.size() == 3, "ID shutdown CLIENT");
        String name = words.get(2);
        known(name);
        start(() -> {
            try {
                client(name).shutdown();
                answer(id, "null");
            } catch (Throwable e) {
                refuse(id, e);
            }
        });
    }

    private void exit(String id, List<String> words) throws Refusal {
        expect(words.size() == 2, "ID exit");
        for (String name : clients.keySet()) {
            try {
                client(name).shutdown();
            } catch (Exception e) {
                System.err.println("shutdown of " + name + ": " + e);
            }
        }
        answer(id, "bye");
        Runtime.getRuntime().halt(0);
    }

    private void onThread(String id, List<String> words) throws Refusal {
        expect(words.size() >= 4, "ID CLIENT THREAD OP TYPE LOCK [ARG ...]");
        String client = words.get(1);
        LockCall call = words.get(3).equals("info") ? null : LockCall.parse(words.subList(3, words.size()));
        expect(call != null || words.size() == 4, "ID CLIENT THREAD info");
        known(client);
        Worker worker = workers.computeIfAbsent(words.get(2), Worker::new);
        worker.submit(() -> {
            try {
                if (call == null) {
                    answer(id, client(client).id() + " " + Thread.currentThread().getId());
                } else {
                    answer(id, call.run(this, client(client), worker));
                }
            } catch (Throwable e) {
                refuse(id, e);
            }
        });
    }

    private CompletableFuture<Client> known(String name) throws Refusal {
        CompletableFuture<Client> made = clients.get(name);
        if (made == null) {
            throw Refusal.usage("no client " + name);
        }
        return made;
    }

    private static void expect(boolean fits, String form) throws Refusal {
        if (!fits) {
            throw Refusal.usage("expected: " + form);
        }
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "peer-control");
        thread.setDaemon(true);
        thread.start();
    }

    private void answer(String id, String value) {
        print(id + " OK " + value);
    }

    private void refuse(String id, Throwable e) {
        Refusal refusal = Refusal.of(e);
        print(id + " ERR " + refusal.kind() + " " + refusal.getMessage().replaceAll("\\R", " "));
    }

    private synchronized void print(String line) {
        answers.print(line + "\n");
        answers.flush();
    }
}
