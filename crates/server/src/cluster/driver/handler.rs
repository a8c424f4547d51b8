//! Passes events and frames of links on: to membership, or to the attached `Frames`.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use keyspace::{NodeId, UnsupportedVersion};

use super::MembershipDriver;
use crate::cluster::{ClusterError, KIND_MEMBERSHIP};
use crate::peer::{PeerHandler, PeerHello, Refusal};

impl PeerHandler for MembershipDriver {
    fn connected(&self, node: NodeId, hello: &PeerHello) {
        let mut desk = self.desk.lock();
        let had = desk.identity;
        desk.linked(self.now(), node, hello);
        if let (None, Some(identity)) = (had, desk.identity) {
            self.net.set_cluster(identity.cluster);
            self.settled.notify_all();
        }
        self.apply_effects(desk);
        let mut reported_up = self.reported_up.lock();
        reported_up.insert(node);
        if let Some(frames) = self.frames.get() {
            self.reported.store(true, Ordering::Relaxed);
            frames.link_up(node);
        }
    }

    fn disconnected(&self, node: NodeId) {
        self.desk.lock().unlinked(node);
        let mut reported_up = self.reported_up.lock();
        reported_up.remove(&node);
        if let Some(frames) = self.frames.get() {
            self.reported.store(true, Ordering::Relaxed);
            frames.link_down(node);
        }
    }

    fn frame(&self, from: NodeId, kind: u8, body: Bytes) {
        if kind == KIND_MEMBERSHIP {
            let mut desk = self.desk.lock();
            desk.frame(self.now(), from, &body);
            return self.apply_effects(desk);
        }
        match self.frames.get() {
            Some(frames) => {
                self.reported.store(true, Ordering::Relaxed);
                frames.frame(from, kind, body);
            }
            None => drop(self.early_frames.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn turn_ended(&self) {
        // Only this thread sets it.
        if self.reported.swap(false, Ordering::Relaxed)
            && let Some(frames) = self.frames.get()
        {
            frames.turn_ended();
        }
    }

    fn refused(&self, address: &str, refusal: &Refusal) {
        let fatal = match *refusal {
            // The handshake has checked that it is this one, and that a member says so.
            Refusal::Removed { node, .. } if node == self.node => {
                Some(ClusterError::Removed { node })
            }
            // So has it here, if it is of this node.
            Refusal::UnsupportedVersion { version, supported, .. }
                if supported == self.supported =>
            {
                UnsupportedVersion::of(version, supported)
                    .into_iter()
                    .for_each(|unsupported| self.version_unsupported(unsupported));
                self.desk.lock().refused(address, refusal)
            }
            _ => self.desk.lock().refused(address, refusal),
        };
        if let Some(fatal) = fatal {
            self.end(fatal);
        }
    }

    fn version_unsupported(&self, unsupported: UnsupportedVersion) {
        // A node that is too new may have met one that slept while the version rose.
        let is_sure = unsupported.version > self.supported.highest();
        if is_sure || self.desk.lock().identity.is_none() {
            self.end(unsupported.into());
        }
    }

    fn unreachable(&self, address: &str, why: &str) {
        self.desk.lock().seed_statuses.unreachable(address, why);
    }
}
