//! What other modules see of each member.

use std::time::{Duration, Instant};

use keyspace::{NodeId, VersionRange};
use membership::{Load, Member, State};

/// Whether a member is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It answers, or has not been silent for long enough to be suspected.
    Up,
    /// It is dead, paused or cut off, and may come back.
    Down,
    /// It has left on purpose.
    Left,
}

/// A member as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its id, for ever.
    pub node: NodeId,
    /// Its name, for people; not unique.
    pub name: String,
    /// `HOST:PORT` where other nodes reach it.
    pub peer: String,
    /// The host that clients get as its address.
    pub host: String,
    /// Its port of RESP, if it listens.
    pub resp: Option<u16>,
    /// Its port of RESP for clients that ask for replicas, if it listens.
    pub resp_replica: Option<u16>,
    /// Its port of the native protocol, if it listens.
    pub native: Option<u16>,
    /// Its port of HTTP, if it listens.
    pub http: Option<u16>,
    /// Its port of RESP by TLS, if it listens.
    pub resp_tls: Option<u16>,
    /// Its port of HTTP by TLS, if it listens.
    pub http_tls: Option<u16>,
    /// Its failure domain; empty: unknown.
    pub domain: String,
    /// The program it runs.
    pub software: String,
    /// The cluster versions that it supports.
    pub supported: VersionRange,
    /// Whether it is up.
    pub state: MemberState,
    /// It did not answer lately: treat it as up, but do not wait for it.
    pub suspected: bool,
    /// Since when it is in this state, as seen from here.
    pub since: Instant,
    /// Its load, as it last reported.
    pub load: Load,
    /// When it joined, in milliseconds since 1970: members are in this order.
    pub joined_at: u64,
}

impl MemberInfo {
    /// Whether it can be expected to answer.
    pub fn is_up(&self) -> bool {
        self.state == MemberState::Up
    }

    /// `began` is when the nanoseconds of membership began.
    pub(super) fn of(member: &Member<'_>, began: Instant) -> Self {
        let facts = member.facts;
        let state = match member.state {
            State::Alive | State::Suspect => MemberState::Up,
            State::Down => MemberState::Down,
            State::Left => MemberState::Left,
        };
        Self {
            node: member.node,
            name: facts.name.clone(),
            peer: facts.peer.clone(),
            host: facts.advertised.clone(),
            resp: facts.resp,
            resp_replica: facts.resp_replica,
            native: facts.native,
            http: facts.http,
            resp_tls: facts.resp_tls,
            http_tls: facts.http_tls,
            domain: facts.domain.clone(),
            software: facts.software.clone(),
            supported: facts.supported,
            state,
            suspected: member.state == State::Suspect,
            since: began + Duration::from_nanos(member.since),
            load: facts.load,
            joined_at: facts.joined_at,
        }
    }
}
