//! A slow reader of DEFLATE (RFC 1951) that is plainly right: one bit after the other.

/// The inflated data, as far as the compressed data has come.
#[derive(Debug, Default)]
pub(crate) struct NaiveInflated {
    pub(crate) data: Vec<u8>,
    pub(crate) is_corrupt: bool,
    /// The largest distance of a reference.
    pub(crate) largest_distance: usize,
}

/// The reason that there is no further symbol.
enum Stop {
    /// The rest has not come.
    End,
    Corrupt,
}

/// Inflates blocks. Behind a last block, another stream begins at the next byte, with an empty window.
pub(crate) fn inflate_naively(bytes: &[u8]) -> NaiveInflated {
    let mut inflate = NaiveInflate {
        bits: Bits { bytes, at: 0 },
        data: Vec::new(),
        begin: 0,
        largest_distance: 0,
    };
    let is_corrupt = loop {
        match inflate.read_block() {
            Ok(()) => {}
            Err(Stop::End) => break false,
            Err(Stop::Corrupt) => break true,
        }
    };
    NaiveInflated { data: inflate.data, is_corrupt, largest_distance: inflate.largest_distance }
}

struct NaiveInflate<'a> {
    bits: Bits<'a>,
    data: Vec<u8>,
    /// The beginning of the stream, behind the last block of another one.
    begin: usize,
    largest_distance: usize,
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> Result<usize, Stop> {
        if self.at + count > 8 * self.bytes.len() {
            return Err(Stop::End);
        }
        let bit = |at: usize| usize::from(self.bytes[at / 8] >> (at % 8) & 1);
        let value = (0..count).map(|index| bit(self.at + index) << index).sum();
        self.at += count;
        Ok(value)
    }

    fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }
}

/// A code: for each symbol the number of its bits, 0 if it has none.
struct HuffmanCode(Vec<(usize, usize, usize)>);

impl HuffmanCode {
    /// Assigns the codes in the order of lengths, then of symbols. A set that is not complete is valid only if it has one
    /// code of one bit, or none, and `may_be_single`.
    fn new(lengths: &[usize], may_be_single: bool) -> Result<Self, Stop> {
        let (mut codes, mut code) = (Vec::new(), 0);
        let mut left: i64 = 1;
        for length in 1..=15 {
            code <<= 1;
            left <<= 1;
            for (symbol, _) in lengths.iter().enumerate().filter(|(_, of)| **of == length) {
                codes.push((length, code, symbol));
                code += 1;
                left -= 1;
            }
            if left < 0 {
                return Err(Stop::Corrupt);
            }
        }
        let is_single = matches!(codes[..], [(1, ..)]) && may_be_single;
        match left == 0 || codes.is_empty() || is_single {
            true => Ok(Self(codes)),
            false => Err(Stop::Corrupt),
        }
    }

    fn read(&self, bits: &mut Bits<'_>) -> Result<usize, Stop> {
        let mut code = 0;
        if self.0.is_empty() {
            bits.take(1)?;
        }
        for length in 1..=15 {
            if !self.0.iter().any(|(of, ..)| *of >= length) {
                return Err(Stop::Corrupt);
            }
            code = code << 1 | bits.take(1)?;
            if let Some((_, _, symbol)) =
                self.0.iter().find(|(of, found, _)| (*of, *found) == (length, code))
            {
                return Ok(*symbol);
            }
        }
        Err(Stop::Corrupt)
    }
}

impl NaiveInflate<'_> {
    fn read_block(&mut self) -> Result<(), Stop> {
        let is_last = self.bits.take(1)? == 1;
        match self.bits.take(2)? {
            0 => self.read_stored()?,
            1 => {
                let lengths = |symbol| match symbol {
                    0..=143 => 8,
                    144..=255 => 9,
                    256..=279 => 7,
                    _ => 8,
                };
                let literals = HuffmanCode::new(&(0..288).map(lengths).collect::<Vec<_>>(), false)?;
                self.read_symbols(&literals, &HuffmanCode::new(&[5; 32], false)?)?;
            }
            2 => {
                let (literals, distances) = self.read_codes()?;
                self.read_symbols(&literals, &distances)?;
            }
            _ => return Err(Stop::Corrupt),
        }
        if is_last {
            self.bits.align();
            self.begin = self.data.len();
        }
        Ok(())
    }

    fn read_stored(&mut self) -> Result<(), Stop> {
        self.bits.align();
        let (len, check) = (self.bits.take(16)?, self.bits.take(16)?);
        if len != !check & 0xffff {
            return Err(Stop::Corrupt);
        }
        for _ in 0..len {
            let byte = self.bits.take(8)? as u8;
            self.data.push(byte);
        }
        Ok(())
    }

    fn read_codes(&mut self) -> Result<(HuffmanCode, HuffmanCode), Stop> {
        let literals = 257 + self.bits.take(5)?;
        let distances = 1 + self.bits.take(5)?;
        let count = 4 + self.bits.take(4)?;
        if literals > 286 || distances > 30 {
            return Err(Stop::Corrupt);
        }
        let mut of_lengths = [0; 19];
        let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        for symbol in &order[..count] {
            of_lengths[*symbol] = self.bits.take(3)?;
        }
        let of_lengths = HuffmanCode::new(&of_lengths, false)?;
        if of_lengths.0.is_empty() {
            // zlib takes each bit for a length of 0, and finds behind them that the end of the block has no code.
            for _ in 0..literals + distances {
                self.bits.take(1)?;
            }
            return Err(Stop::Corrupt);
        }
        let mut lengths = Vec::new();
        while lengths.len() < literals + distances {
            let (length, times) = match of_lengths.read(&mut self.bits)? {
                16 => match lengths.last() {
                    Some(last) => (*last, 3 + self.bits.take(2)?),
                    None => return Err(Stop::Corrupt),
                },
                17 => (0, 3 + self.bits.take(3)?),
                18 => (0, 11 + self.bits.take(7)?),
                length => (length, 1),
            };
            lengths.extend(std::iter::repeat_n(length, times));
        }
        if lengths.len() > literals + distances || lengths[256] == 0 {
            return Err(Stop::Corrupt);
        }
        let (literals, distances) = lengths.split_at(literals);
        Ok((HuffmanCode::new(literals, true)?, HuffmanCode::new(distances, true)?))
    }

    fn read_symbols(
        &mut self,
        literals: &HuffmanCode,
        distances: &HuffmanCode,
    ) -> Result<(), Stop> {
        loop {
            let len = match literals.read(&mut self.bits)? {
                literal @ 0..=255 => {
                    self.data.push(literal as u8);
                    continue;
                }
                256 => return Ok(()),
                symbol @ 257..=264 => symbol - 254,
                symbol @ 265..=284 => {
                    let (extra, step) = ((symbol - 261) / 4, (symbol - 261) % 4);
                    3 + ((4 + step) << extra) + self.bits.take(extra)?
                }
                285 => 258,
                _ => return Err(Stop::Corrupt),
            };
            let distance = match distances.read(&mut self.bits)? {
                symbol @ 0..=3 => symbol + 1,
                symbol @ 4..=29 => {
                    let (extra, step) = ((symbol - 2) / 2, symbol % 2);
                    1 + ((2 + step) << extra) + self.bits.take(extra)?
                }
                _ => return Err(Stop::Corrupt),
            };
            if distance > (self.data.len() - self.begin).min(32 * 1024) {
                return Err(Stop::Corrupt);
            }
            self.largest_distance = self.largest_distance.max(distance);
            for _ in 0..len {
                self.data.push(self.data[self.data.len() - distance]);
            }
        }
    }
}
