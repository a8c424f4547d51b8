//! Random scripts, each from its seed: values, tables and calls of library functions, nested.

/// Draws from a linear congruential generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((self.0 >> 33) as usize) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const ATOMS: [&str; 38] = [
    "1",
    "0",
    "-1",
    "3.7",
    "-2.5",
    "1e15",
    "1e16",
    "2^53",
    "255",
    "256",
    "-129",
    "1/3",
    "'a'",
    "''",
    "'12'",
    "'-7.5'",
    "'0x1f'",
    "'text with spaces'",
    "'\\0\\255'",
    "'é/\"'",
    "'%d'",
    "true",
    "false",
    "nil",
    "KEYS[1]",
    "ARGV[2]",
    "ARGV[3]",
    "cjson.null",
    "redis.call('get','k1')",
    "redis.call('lrange','list',0,-1)",
    "redis.call('hgetall','hash')",
    "redis.pcall('incr','k1')",
    "redis.call('incr','number')",
    "#KEYS",
    "redis.call('get','none')",
    "'[1,{\"a\":null}]'",
    "'\\147\\1\\161a\\192'",
    "'{\"k\":\"v\"}'",
];

const CALLS: [&str; 58] = [
    "tostring(@):sub(1,6)",
    "tonumber(@)",
    "type(@)",
    "#(@)",
    "-(@)",
    "not @",
    "(@)+(@)",
    "(@)..(@)",
    "(@)==(@)",
    "(@)<(@)",
    "(@)*(@)",
    "(@)%(@)",
    "(@) and (@)",
    "(@) or (@)",
    "cjson.encode(@)",
    "cjson.decode(@)",
    "cjson.encode(cjson.decode(@))",
    "cmsgpack.pack(@)",
    "cmsgpack.unpack(@)",
    "cmsgpack.pack(@,@)",
    "bit.band(@,@)",
    "bit.tohex(@)",
    "bit.lshift(@,@)",
    "bit.bswap(@)",
    "string.rep(@,3)",
    "string.sub(@,2,-2)",
    "string.upper(@)",
    "string.reverse(@)",
    "string.format('%s|%d',@,@)",
    "string.format('%q',@)",
    "string.byte(@,1,3)",
    "string.find(@,@)",
    "string.gsub(@,'%w',@)",
    "string.match(@,'(%a)(.*)')",
    "string.gsub(@,'.','<%0>')",
    "struct.pack('>I2',@)",
    "struct.pack('s',@)",
    "struct.unpack('b',@)",
    "struct.pack('d',@)",
    "redis.sha1hex(@)",
    "redis.error_reply(@)",
    "redis.status_reply(@)",
    "unpack({@,@})",
    "select('#',@,@)",
    "math.floor(@)",
    "math.max(@,@)",
    "table.concat({@,@},',')",
    "pcall(error,@)",
    "redis.pcall('set','x',@)",
    "redis.call('echo',@)",
    "redis.pcall(@)",
    "rawequal(@,@)",
    "next({@})",
    "assert(@,@)",
    "(function(...) return select('#',...) end)(@,@)",
    "loadstring('return '..(@))()",
    "math.fmod(@,@)",
    "redis.call('rpush','l',@,@)",
];

fn expression(dice: &mut Dice, depth: usize, out: &mut String) {
    if depth == 0 || dice.roll(4) == 0 {
        out.push_str(dice.pick(&ATOMS));
        return;
    }
    match dice.roll(6) {
        0 => table(dice, depth - 1, out),
        1 => {
            out.push_str("{pcall(function() return ");
            expression(dice, depth - 1, out);
            out.push_str(" end)}");
        }
        _ => {
            let call = dice.pick(&CALLS);
            for (index, part) in call.split('@').enumerate() {
                if index > 0 {
                    expression(dice, depth - 1, out);
                }
                out.push_str(part);
            }
        }
    }
}

fn table(dice: &mut Dice, depth: usize, out: &mut String) {
    const FIELDS: [&str; 14] = [
        "",
        "",
        "",
        "",
        "ok=",
        "err=",
        "double=",
        "map=",
        "set=",
        "big_number=",
        "verbatim_string=",
        "a=",
        "[2]=",
        "[1.5]=",
    ];
    out.push('{');
    for _ in 0..dice.roll(4) {
        out.push_str(dice.pick(&FIELDS));
        expression(dice, depth, out);
        out.push(',');
    }
    out.push('}');
}

/// A script. It never tells an address, and never raises a table without `err`, which ends Redis.
pub fn script(seed: u64) -> String {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut text = String::new();
    if dice.roll(4) == 0 {
        text.push_str("redis.setresp(3) ");
    }
    text.push_str("return ");
    expression(&mut dice, 4, &mut text);
    text
}
