// Package replays replays stored runs of agents with a candidate: another version of the agent, or
// another module. A replay is a job that any server executes in the background, run by run, with the
// recorded answers of models and tools. The store has the progress of the job, so that another server
// continues it after a crash. If two servers end while they replay the same run, the run gets the
// outcome failed.
package replays
