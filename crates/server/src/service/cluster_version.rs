//! Shows and raises the cluster version: `/v1/level`.

use keyspace::{CatalogueOp, ClusterVersion, VersionRange};
use node::executor;

use super::NodeApi;
use super::errors::not_done;
use crate::runtime::survey::Survey;
use crate::runtime::{cluster_version, requests, survey};
use api::{ApiError, ClusterVersionStatus, Done, Kind, Metrics, NodeVersions, RequestId};

impl NodeApi {
    pub(super) fn show_version(&self, survey: &Survey) -> ClusterVersionStatus {
        let runtime = &self.runtime;
        let next =
            runtime.version.current().next().filter(|next| runtime.version.ours().supports(*next));
        let required = cluster_version::required_nodes(runtime, survey).into_iter();
        ClusterVersionStatus {
            version: runtime.version.current().number(),
            supported: numbers(runtime.version.ours()),
            automatic: runtime.version.is_automatic(),
            objections: next
                .map(|next| cluster_version::objections(runtime, next, survey))
                .unwrap_or_default(),
            nodes: required
                .map(|node| NodeVersions {
                    id: format!("{:016x}", node.node.0),
                    name: node.name,
                    supported: node.supported.map(numbers),
                })
                .collect(),
        }
    }

    /// Raises it, to the next version unless another is named; does nothing if it is there already.
    pub(super) fn request_version(
        &self,
        id: RequestId,
        to: Option<u8>,
        done: Done<ClusterVersionStatus>,
    ) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let survey = survey::survey(&self.runtime);
        let to = match self.rises_to(to, &survey) {
            Ok(Some(to)) => to,
            Ok(None) => return done(Ok(self.show_version(&survey))),
            Err(why) => return done(Err(ApiError::VersionRefused { why })),
        };
        tracing::warn!("an operator requests cluster version {to}");
        let this = self.again();
        let callback = move |answer| match answer {
            executor::Answer::Catalogue { result: Ok(_), .. } => {
                done(Ok(this.show_version(&survey::survey(&this.runtime))));
            }
            executor::Answer::Catalogue { result: Err(error), .. } => {
                done(Err(ApiError::VersionRefused { why: error.to_string() }));
            }
            executor::Answer::NotDone { why, .. } => done(Err(not_done(why, Some(id)))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        requests::change_catalogue(
            &self.runtime,
            &CatalogueOp::RaiseVersion { to },
            Some(Box::new(callback)),
        );
    }

    /// The version to rise to; none if it is there already. Or why it cannot, as a clause.
    fn rises_to(
        &self,
        asked: Option<u8>,
        survey: &Survey,
    ) -> Result<Option<ClusterVersion>, String> {
        let (from, ours) = (self.runtime.version.current(), self.runtime.version.ours());
        let next = from.next().filter(|next| asked.is_some() || ours.supports(*next));
        let Some(next) = next else { return Ok(None) };
        match asked {
            Some(to) if to == from.number() => return Ok(None),
            Some(to) if to < from.number() => {
                return Err(format!(
                    "the cluster version is {from}, and is never lowered: nodes may have \
                     used what it allows"
                ));
            }
            Some(to) if to > next.number() => {
                return Err(format!(
                    "the cluster version is {from}, and rises by one at a time: {next} comes first"
                ));
            }
            _ => {}
        }
        match &cluster_version::objections(&self.runtime, next, survey)[..] {
            [] => Ok(Some(next)),
            why => Err(format!(
                "not all nodes support version {next}: {}; upgrade them, or remove those that are \
                 lost for good",
                why.join("; ")
            )),
        }
    }

    pub(super) fn version_metrics(&self, out: &mut Metrics) {
        let help = "Version that the whole cluster uses.";
        out.gauge("carillon_cluster_version", help, self.runtime.version.current().number().into());
        let labels = |bound: &str| vec![("bound", bound.to_owned())];
        let [lowest, highest] = numbers(self.runtime.version.ours()).map(f64::from);
        let supported = [(labels("lowest"), lowest), (labels("highest"), highest)];
        let help = "Cluster versions that this node supports.";
        out.numbers("carillon_cluster_version_supported", help, Kind::Gauge, supported);
    }
}

fn numbers(supported: VersionRange) -> [u8; 2] {
    [supported.lowest(), supported.highest()].map(ClusterVersion::number)
}
