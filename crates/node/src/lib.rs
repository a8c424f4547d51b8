//! One node as a pure state machine, stepped by the server and by the simulator.

pub mod command;
