//! A reply of an HTTP server.

/// A reply that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReply {
    /// It is not HTTP/1.1, or it is incomplete.
    #[error("the reply is not complete HTTP")]
    Malformed,
    /// The server refuses, or has no such path.
    #[error("HTTP status {status}{hint}", status = .0, hint = meaning(*.0))]
    Status(u16),
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => ": is it https?",
        401 | 403 => ": it demands credentials (--fleet-token-file, --fleet-cert)",
        404 => ": is it silkraild?",
        503 => ": silkraild has not collected yet",
        _ => "",
    }
}

/// Returns the body of a complete reply, which the server ended by closing the connection.
pub(crate) fn body(reply: &[u8]) -> Result<Vec<u8>, InvalidReply> {
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").ok_or(InvalidReply::Malformed)?;
    let head = std::str::from_utf8(&reply[..end]).map_err(|_| InvalidReply::Malformed)?;
    let body = &reply[end + 4..];
    let mut lines = head.split("\r\n");
    let mut status = lines.next().unwrap_or_default().split(' ');
    if !status.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(InvalidReply::Malformed);
    }
    match status.next().and_then(|status| status.parse().ok()) {
        Some(200) => {}
        Some(status) => return Err(InvalidReply::Status(status)),
        None => return Err(InvalidReply::Malformed),
    }
    let headers: Vec<(String, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .collect();
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return chunks(body).ok_or(InvalidReply::Malformed);
    }
    match header("content-length").map(str::parse::<usize>) {
        Some(Ok(length)) => body.get(..length).map(<[u8]>::to_vec).ok_or(InvalidReply::Malformed),
        Some(Err(_)) => Err(InvalidReply::Malformed),
        None => Ok(body.to_vec()),
    }
}

/// Joins chunks; `None` if the last one is missing.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(joined);
        }
        joined.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_in_each_encoding() {
        let text = |reply: &str| body(reply.as_bytes()).map(|body| String::from_utf8(body).unwrap());
        assert_eq!(text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}x").as_deref(), Ok("{}"));
        assert_eq!(text("HTTP/1.1 200 OK\r\n\r\n{}").as_deref(), Ok("{}"));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n2;a=b\r\n1}\r\n0\r\n\r\n";
        assert_eq!(text(chunked).as_deref(), Ok("{1}"));
        assert_eq!(text("HTTP/1.1 401 Unauthorized\r\n\r\n"), Err(InvalidReply::Status(401)));
        for malformed in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
            "HTTP/1.1 OK\r\n\r\n",
        ] {
            assert_eq!(text(malformed), Err(InvalidReply::Malformed), "{malformed:?}");
        }
    }
}
