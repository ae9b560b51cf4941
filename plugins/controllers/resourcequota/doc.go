// Package resourcequota is the controller that keeps the status of each
// ResourceQuota: its hard limits and what the objects of the namespace use of
// them, counted by the evaluators of sdk/quota (000 RQC-1 to RQC-12).
//
// A quota is looked at when it appears, when its spec.hard changes (RQC-5,
// RQC-6), when an object that it constrains is updated or deleted (RQC-8;
// creations are charged by admission, RQC-9), and every five minutes (RQC-7).
// Pods, services, ConfigMaps and replication controllers are counted and
// watched in the shared informers; secrets and claims are listed when
// a quota needs their count, and their deletions show at the next full sync
// (RQC-2): no cache of them is kept. The same holds for the kinds that only a
// count/ name speaks of; these are listed as metadata.
package resourcequota
