-- Whether anybody reads: in mode read, or beside the writer who may.
-- KEYS: the lock. Reply: 1 or 0.
local mode = redis.call('hget', KEYS[1], 'mode')
local reads = mode == 'read' or (mode == 'write' and redis.call('hlen', KEYS[1]) > 2)
return reads and 1 or 0
