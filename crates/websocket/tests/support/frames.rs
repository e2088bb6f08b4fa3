//! Frames made and read by hand, independent of the code under test.

/// A byte that a mask changes visibly.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Returns a frame: its first byte, its payload, and whether it is masked.
pub(crate) fn frame(first: u8, payload: &[u8], is_masked: bool) -> Vec<u8> {
    let mut frame = vec![first];
    let mask_bit = if is_masked { 0x80 } else { 0 };
    match payload.len() {
        len @ 0..=125 => frame.push(mask_bit | len as u8),
        len @ 126..=0xffff => {
            frame.push(mask_bit | 126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            frame.push(mask_bit | 127);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    if is_masked {
        frame.extend_from_slice(&MASK);
        frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    } else {
        frame.extend_from_slice(payload);
    }
    frame
}

/// Returns the payload of a Close.
pub(crate) fn close_payload(code: u16, text: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], text.as_bytes()].concat()
}

/// Takes the complete frames from the front of `bytes`, each as a line: `text hello`, `ping x`, `close 1000 bye`. Long
/// payloads are shown by their length; `~` marks a frame that is not the last one of its message, `*` a compressed one.
pub(crate) fn take_frames(bytes: &mut Vec<u8>, are_masked: bool) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some((line, len)) = first_frame(bytes, are_masked) {
        lines.push(line);
        bytes.drain(..len);
    }
    lines
}

fn first_frame(bytes: &[u8], is_masked: bool) -> Option<(String, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    assert_eq!(second & 0x80 != 0, is_masked, "a mask on the wrong side: {bytes:02x?}");
    let (len, mut at) = match second & 0x7f {
        126 => (u16::from_be_bytes(bytes.get(2..4)?.try_into().unwrap()) as usize, 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().unwrap()) as usize, 10),
        len => (usize::from(len), 2),
    };
    let mut mask = [0; 4];
    if is_masked {
        mask.copy_from_slice(bytes.get(at..at + 4)?);
        at += 4;
    }
    let payload = bytes.get(at..at + len)?;
    let payload: Vec<_> = payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m).collect();
    Some((describe(first, &payload), at + len))
}

fn describe(first: u8, payload: &[u8]) -> String {
    let name = match first & 0x0f {
        0 => "more",
        1 => "text",
        2 => "binary",
        8 => return describe_close(payload),
        9 => "ping",
        10 => "pong",
        opcode => panic!("the opcode {opcode}"),
    };
    let unfinished = if first & 0x80 == 0 { "~" } else { "" };
    let compressed = if first & 0x40 != 0 { "*" } else { "" };
    format!("{unfinished}{compressed}{name} {}", show(payload))
}

fn describe_close(payload: &[u8]) -> String {
    match payload {
        [] => "close".into(),
        [high, low, text @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            format!("close {code} {}", String::from_utf8_lossy(text)).trim_end().to_owned()
        }
        [_] => panic!("half a code"),
    }
}

/// Returns a payload as text, or its length if it is long.
pub(crate) fn show(payload: &[u8]) -> String {
    match payload.len() {
        0..=100 => payload.escape_ascii().to_string(),
        len => format!("[{len}]"),
    }
}
