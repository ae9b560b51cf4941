// Package cronjob makes a Job from each CronJob whenever its schedule says so.
//
// A sync reads the CronJob and the Jobs that it controls from shared informers.
// It deletes finished Jobs beyond the history limits (history.go), brings
// status.active and the times of the status up to date (active.go), and asks the
// schedule for the latest start that is due (schedule.go). It makes the Job of
// that start, if deadline and concurrency policy let it (start.go). It writes the
// status once, and comes back 100 ms after the next start.
//
// The name of a Job ends in the minute of its start. The API refuses a second Job
// of that name, so that a crash between the creation and the write of the status
// makes no second one. It promises one more thing than Kubernetes: when the
// machine's clock is set, or the machine slept, all CronJobs are looked at within
// ten seconds (drift.go).
//
// Jobs are its own by the UID of their controller. A Job of another controller
// that has the name of a CronJob is left alone.
//
// Time zones are compiled in (time/tzdata, 450 kB), for machines without them and
// for a process that does not see those of its machine. Schedules are read by
// github.com/robfig/cron/v3, as Kubernetes reads them. A schedule without a zone
// goes by the time zone of the process, which is that of the machine.
package cronjob
