/* An answer that is not OK: its kind and what to say. */
package lockson.interop;

import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

final class Refusal extends Exception {
    private static final long serialVersionUID = 1L;

    private final String kind;

    private Refusal(String kind, String message) {
        super(message);
        this.kind = kind;
    }

    static Refusal config(String message) {
        return new Refusal("Config", message);
    }

    static Refusal notHeld(String message) {
        return new Refusal("NotHeld", message);
    }

    static Refusal unsupported(String message) {
        return new Refusal("Unsupported", message);
    }

    static Refusal usage(String message) {
        return new Refusal("Usage", message);
    }

    static Refusal of(Throwable e) {
        // Redisson wraps: which calls do, and how deep, differs between its versions.
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof Refusal refusal) {
                return refusal;
            }
            String kind = kindOf(cause);
            if (kind != null) {
                return new Refusal(kind, text(cause));
            }
        }
        Throwable told = e;
        while ((told instanceof CompletionException || told instanceof ExecutionException) && told.getCause() != null) {
            told = told.getCause();
        }
        return new Refusal(told.getClass().getSimpleName(), text(told));
    }

    String kind() {
        return kind;
    }

    private static String kindOf(Throwable e) {
        if (e instanceof IllegalMonitorStateException) {
            return "NotHeld";
        }
        if (e instanceof InterruptedException) {
            return "Cancelled";
        }
        if (e instanceof UnsupportedOperationException) {
            return "Unsupported";
        }
        return null;
    }

    private static String text(Throwable e) {
        StringBuilder text = new StringBuilder(e.getMessage() == null ? e.getClass().getName() : e.getMessage());
        // "Unexpected exception while processing command" alone says nothing.
        for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) {
            String more = cause.getMessage();
            if (more != null && text.indexOf(more) < 0) {
                text.append(": ").append(more);
            }
        }
        return text.toString();
    }
}
