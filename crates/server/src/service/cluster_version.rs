//! The cluster's feature level, as people see and raise it: `/v1/level`.

use keyspace::{CatalogueOp, Level, Levels};
use node::executor;

use super::NodeApi;
use super::errors::not_done;
use crate::runtime::survey::Survey;
use crate::runtime::{cluster_version, requests, survey};
use api::{ApiError, Done, Kind, LevelStatus, Metrics, NodeLevels, RequestId};

impl NodeApi {
    pub(super) fn show_level(&self, survey: &Survey) -> LevelStatus {
        let runtime = &self.runtime;
        let next =
            runtime.version.level().next().filter(|next| runtime.version.ours().speak(*next));
        let speakers = cluster_version::voices(runtime, survey).into_iter();
        LevelStatus {
            level: runtime.version.level().number(),
            speaks: numbers(runtime.version.ours()),
            automatic: runtime.version.is_automatic(),
            objections: next
                .map(|next| cluster_version::objections(runtime, next, survey))
                .unwrap_or_default(),
            nodes: speakers
                .map(|speaker| NodeLevels {
                    id: format!("{:016x}", speaker.node.0),
                    name: speaker.name,
                    speaks: speaker.levels.map(numbers),
                })
                .collect(),
        }
    }

    /// Raises it, to the next level unless another is named; where it is already nothing happens.
    pub(super) fn ask_level(&self, id: RequestId, to: Option<u8>, done: Done<LevelStatus>) {
        if self.runtime.lifecycle.is_stopping() {
            return done(Err(ApiError::Stopping));
        }
        let survey = survey::survey(&self.runtime);
        let to = match self.rises_to(to, &survey) {
            Ok(Some(to)) => to,
            Ok(None) => return done(Ok(self.show_level(&survey))),
            Err(why) => return done(Err(ApiError::NoLevel { why })),
        };
        tracing::warn!("feature level {to} is asked for");
        let this = self.again();
        let callback = move |answer| match answer {
            executor::Answer::Catalogue { result: Ok(_), .. } => {
                done(Ok(this.show_level(&survey::survey(&this.runtime))));
            }
            executor::Answer::Catalogue { result: Err(error), .. } => {
                done(Err(ApiError::NoLevel { why: error.to_string() }));
            }
            executor::Answer::NotDone { why, .. } => done(Err(not_done(why, Some(id)))),
            other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
        };
        requests::change_catalogue(
            &self.runtime,
            &CatalogueOp::Level { to },
            Some(Box::new(callback)),
        );
    }

    /// To which level it is to rise; none if it is there. Or why it cannot, as a clause.
    fn rises_to(&self, asked: Option<u8>, survey: &Survey) -> Result<Option<Level>, String> {
        let (from, ours) = (self.runtime.version.level(), self.runtime.version.ours());
        let next = from.next().filter(|next| asked.is_some() || ours.speak(*next));
        let Some(next) = next else { return Ok(None) };
        match asked {
            Some(to) if to == from.number() => return Ok(None),
            Some(to) if to < from.number() => {
                return Err(format!(
                    "the cluster's level is {from}, and a level is never lowered: nodes may have \
                     used what it allows"
                ));
            }
            Some(to) if to > next.number() => {
                return Err(format!(
                    "the cluster's level is {from}, and rises by one at a time: {next} comes first"
                ));
            }
            _ => {}
        }
        match &cluster_version::objections(&self.runtime, next, survey)[..] {
            [] => Ok(Some(next)),
            why => Err(format!(
                "not all nodes speak level {next}: {}; upgrade them, or remove those that are gone \
                 for good",
                why.join("; ")
            )),
        }
    }

    pub(super) fn level_metrics(&self, out: &mut Metrics) {
        let help = "Feature level of the cluster.";
        out.gauge("carillon_level", help, self.runtime.version.level().number().into());
        let labels = |bound: &str| vec![("bound", bound.to_owned())];
        let [lowest, highest] = numbers(self.runtime.version.ours()).map(f64::from);
        let spoken = [(labels("lowest"), lowest), (labels("highest"), highest)];
        let help = "Feature levels that this node speaks.";
        out.numbers("carillon_levels_spoken", help, Kind::Gauge, spoken);
    }
}

fn numbers(levels: Levels) -> [u8; 2] {
    [levels.lowest(), levels.highest()].map(Level::number)
}
