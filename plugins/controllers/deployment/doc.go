// Package deployment turns each Deployment into replica sets, one a revision
// of its pod template, and moves the pods from the old ones to the new one.
//
// A sync reads the deployment and its replica sets from shared informers,
// adopts or releases replica sets, finds the one whose template is the
// deployment's (template.go, revision.go), then scales (scale.go) or rolls on
// (rolling.go, recreate.go) by changing the replica counts of replica sets,
// and writes the status (status.go, progress.go). Pods are never touched.
//
// Annotations carry what must last: the revision on both kinds, and on replica
// sets the replicas that were wanted and allowed when they were sized last, by
// which a change of size is told from a rollout. Names of replica sets end in
// a hash of the template, which a collision count changes if another template
// has it. A rollback is nothing of its own: kubectl writes the old template,
// and its replica set becomes the newest revision. The annotation
// deprecated.deployment.rollback.to has the same done here (rollback.go).
package deployment
