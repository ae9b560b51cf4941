// Package timetable calls tasks when they are due: the regular work of one node agent, or of thousands in one
// process.
//
// It owns when a task is called and how many are under way at once. A task that is not due holds no goroutine and no
// timer of its own, so an agent at rest costs memory only for what it knows. It promises that a task is never called
// twice at the same time, that one that is poked while it works is called once more afterwards, and that none is
// called, or still under way, after Remove returned. It knows nothing of nodes and pods.
package timetable
