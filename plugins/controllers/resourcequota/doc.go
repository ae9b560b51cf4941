// Package resourcequota is the controller that keeps the status of each
// ResourceQuota: its hard limits and what the objects of the namespace use of
// them, counted by the evaluators of sdk/quota (000 RQC-1 to RQC-12).
//
// A quota is looked at when it appears, when its spec.hard changes (RQC-5,
// RQC-6), when an object that it constrains is updated or deleted (RQC-8;
// creations are charged by admission, RQC-9), and every five minutes (RQC-7).
// Pods, services, ConfigMaps and replication controllers are counted and
// watched in the shared informers. Secrets, claims and the kinds that only a
// count/ name speaks of are watched as metadata, while a quota limits them, and
// listed when one needs their count: of these objects nothing is kept in memory
// but names. A kind that is not served, such as a custom resource before its
// definition, is looked for every half minute.
package resourcequota
