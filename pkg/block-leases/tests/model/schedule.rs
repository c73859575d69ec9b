//! The scheduler: it chooses who does the next step.

use std::{
    cell::RefCell,
    fmt,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use crate::{
    search::Choices,
    world::{View, World},
};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What takes part in a run.
pub(crate) struct Actor {
    pub(crate) name: &'static str,
    pub(crate) machine: usize,
    /// Starts it; again after a crash.
    pub(crate) start: Box<dyn Fn(View) -> Task>,
    /// Whether it is started again after it was killed.
    pub(crate) restarts: bool,
    /// The actor that must be over before this one starts, and does not start if it has been killed.
    pub(crate) after: Option<&'static str>,
    /// Whether it ends with its machine.
    pub(crate) is_on_machine: bool,
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Limits of a run. Without them a search does not end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// How often an actor that could continue has to wait for another.
    pub(crate) switches: usize,
    /// How many actors are killed.
    pub(crate) kills: usize,
    /// How many requests go wrong.
    pub(crate) faults: usize,
}

struct Running<'a> {
    actor: &'a Actor,
    task: Option<Task>,
}

/// Runs the actors until all are over, with the choices. Returns an account of the run if an address was used twice.
pub(crate) fn run(
    machines: usize,
    actors: &[Actor],
    budget: Budget,
    choices: &mut Choices,
) -> Option<String> {
    let world = run_once(machines, actors, budget, choices, None);
    world.used_twice?;
    choices.repeat();
    let world = run_once(machines, actors, budget, choices, Some(Vec::new()));
    Some(format!("{:?} on two nodes:\n{}", world.used_twice?, world.trace?.join("\n")))
}

/// Runs the actors and returns what the world has become. With `trace`, records what happens.
pub(crate) fn run_once(
    machines: usize,
    actors: &[Actor],
    budget: Budget,
    choices: &mut Choices,
    trace: Option<Vec<String>>,
) -> World {
    let choice = std::mem::take(choices);
    let mut world = World { faults: budget.faults, choices: choice, trace, ..World::default() };
    world.machines.resize_with(machines, Default::default);
    let world = Rc::new(RefCell::new(world));
    let mut schedule = Schedule { world: world.clone(), budget, actors: Vec::new(), last: usize::MAX };
    schedule.actors =
        actors.iter().map(|actor| Running { actor, task: Some(schedule.start(actor)) }).collect();
    while schedule.step() {}
    drop(schedule);
    let mut world = Rc::into_inner(world).expect("no actor is left").into_inner();
    *choices = std::mem::take(&mut world.choices);
    world
}

struct Schedule<'a> {
    world: Rc<RefCell<World>>,
    budget: Budget,
    actors: Vec<Running<'a>>,
    /// The actor that did the last step.
    last: usize,
}

enum Move {
    Continue(usize),
    Kill(usize),
    Deliver(usize),
}

impl Schedule<'_> {
    fn start(&self, actor: &Actor) -> Task {
        (actor.start)(View { world: self.world.clone(), actor: actor.name, machine: actor.machine })
    }

    /// Chooses and does one step; returns whether there was one.
    fn step(&mut self) -> bool {
        let moves = self.moves();
        if moves.is_empty() {
            return false;
        }
        let chosen = self.world.borrow_mut().choices.choose(moves.len());
        match moves[chosen] {
            Move::Continue(index) => {
                let could_continue = matches!(moves[0], Move::Continue(last) if last == self.last);
                self.budget.switches -= usize::from(could_continue && index != self.last);
                self.last = index;
                self.poll(index);
            }
            Move::Kill(index) => {
                self.budget.kills -= 1;
                self.kill(index);
            }
            Move::Deliver(index) => {
                let mut world = self.world.borrow_mut();
                let request = world.delayed.remove(index);
                let result = world.execute(&request);
                world.record(|| format!("late: {request:?} -> {result:?}"));
            }
        }
        true
    }

    /// Returns what can happen next; first, if possible, the continuation of what happened last.
    fn moves(&self) -> Vec<Move> {
        let can_run = |index: &usize| self.actors[*index].task.is_some() && !self.must_wait(*index);
        let all = 0..self.actors.len();
        let mut moves: Vec<_> =
            all.clone().filter(|index| *index == self.last).filter(can_run).map(Move::Continue).collect();
        if moves.is_empty() || self.budget.switches > 0 {
            moves.extend(all.clone().filter(|index| *index != self.last).filter(can_run).map(Move::Continue));
        }
        let has_begun = |index: &usize| *index == self.last;
        if self.budget.kills > 0 {
            moves.extend(all.filter(has_begun).filter(can_run).map(Move::Kill));
        }
        moves.extend((0..self.world.borrow().delayed.len()).map(Move::Deliver));
        moves
    }

    fn must_wait(&self, index: usize) -> bool {
        let Actor { after, machine, is_on_machine, .. } = *self.actors[index].actor;
        if is_on_machine && self.world.borrow().machines[machine].is_off {
            return true;
        }
        after.is_some_and(|name| {
            self.actors.iter().any(|other| other.actor.name == name && other.task.is_some())
        })
    }

    fn poll(&mut self, index: usize) {
        let Some(task) = &mut self.actors[index].task else { return };
        let was_off: Vec<_> = self.world.borrow().machines.iter().map(|machine| machine.is_off).collect();
        if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            self.actors[index].task = None;
        }
        let is_off: Vec<_> = self.world.borrow().machines.iter().map(|machine| machine.is_off).collect();
        for machine in (0..is_off.len()).filter(|machine| is_off[*machine] && !was_off[*machine]) {
            for index in 0..self.actors.len() {
                let actor = self.actors[index].actor;
                if actor.machine == machine && actor.is_on_machine && self.actors[index].task.is_some() {
                    self.kill(index);
                }
            }
        }
    }

    fn kill(&mut self, index: usize) {
        let actor = self.actors[index].actor;
        self.world.borrow_mut().record(|| format!("{}: killed", actor.name));
        self.actors[index].task = actor.restarts.then(|| self.start(actor));
    }
}
