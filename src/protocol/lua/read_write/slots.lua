-- What the scripts that look at the readers of a lock begin with.
-- A reader has a field with its count, and for each of its acquisitions a slot: a key that lives as
-- long as that acquisition. Who has no slot left is not there any more, whatever its field says.
-- The stem is what the names of all slots of a lock begin with.

-- What others wrote into a field may be no count, and its name a megabyte: nobody walks for ever.
local MOST_SLOTS = 4096
local MOST_BYTES = 16 * 1024 * 1024

local function slot(stem, reader, number)
    -- Joined, not formatted: '%s' ends at a NUL.
    return stem .. ':' .. reader .. ':rwlock_timeout:' .. number
end

local function counted(value)
    local count = tonumber(value)
    -- 'nan' is a number to Lua, and not equal to itself.
    return count and count == count and math.min(math.floor(count), MOST_SLOTS) or 0
end

-- The topmost slot that this reader may have.
local function topmost(stem, reader, count)
    local most = math.max(math.floor(MOST_BYTES / (#stem + #reader + 1)), 1)
    return math.min(counted(count), most)
end

-- The longest that a slot of this reader lives, as PTTL counts.
local function longest_of(stem, reader, count)
    local longest = -2
    for number = topmost(stem, reader, count), 1, -1 do
        longest = math.max(longest, redis.call('pttl', slot(stem, reader, number)))
    end
    return longest
end

-- The longest that any reader of this lock lives.
local function longest_of_all(key, stem)
    local fields, longest = redis.call('hgetall', key), -2
    for at = 1, #fields, 2 do
        if fields[at] ~= 'mode' then
            longest = math.max(longest, longest_of(stem, fields[at], fields[at + 1]))
        end
    end
    return longest
end

-- Has a slot live so long at least, also one that was gone.
local function hold(name, ttl)
    if redis.call('pttl', name) < tonumber(ttl) then
        redis.call('set', name, 1, 'px', ttl)
    end
end

local function raise(name, ttl)
    if redis.call('pttl', name) < tonumber(ttl) then
        redis.call('pexpire', name, ttl)
    end
end

