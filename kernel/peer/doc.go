// Package peer proves that the modern set decides as kube-scheduler does: it
// builds plugins/modern as a WASM module, serves it by the real plugin host, and
// asks the scheduler (scheduler.Each) about the pods and clusters of
// testdata/scheduling.jsonl.gz, in which kube-scheduler's answers stand (command
// scheduling of e2e/peer wrote them; make peer-goldens). Compared are the verdict
// of each predicate on each node, the nodes that fit, which predicate refuses first
// and in which words, the message about a pod that fits nowhere, and each
// priority's score of each node that fits.
//
// PEER_CASES names another file of the same form, which make test-peer fills with
// more than 10,000 pods.
//
// testdata/differences.txt lists, one by one and with the reason, where the two
// differ and shall; what stands there and no longer differs fails the test.
//
// Beside that, a scheduler lives through changes of a cluster and of its policy
// and is compared with one that sees the cluster for the first time
// (TestCacheIsInvisible).
//
// The package holds tests only, and they import kernel/plugin and
// kernel/scheduler: verdicts and scores of single nodes cannot be seen from
// outside.
package peer
