-- Frees a fair lock whoever holds it, and tells the first in the queue.
-- ARGV: channel.
-- Reply: how many heard it; -1 it was free; -2 freed, but a message was refused.
if redis.call('del', key) == 0 then
    return -1
end
return announce(ARGV[1], successor())
