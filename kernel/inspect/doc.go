// Package inspect owns the questions that operators ask a running kernel and
// that are not objects of the API: why a pod is where it is, what would happen
// if, how a candidate of a plugin differs. They are paths of the API server
// below Path, so that they are authenticated and authorized like every request
// (as nonResourceURLs, with the verbs get and post; no role of the system
// grants them but cluster-admin).
//
// # How data passes through
//
// The kernel registers answers by pattern (Get, Post, Stream), before or while
// the server runs. A request is bounded before its answer is asked: the parts
// of its path, its body, its time, and how many are answered at once. What an
// answer returns is written as JSON; an error as a metav1.Status, one that
// carries a status with it (apierrors) with that one.
//
// # Promises
//
//   - Every refusal is a Status with Kubernetes' reasons, so that clients show it
//     as they show others.
//   - A question ends with its client: the context given to the answer is the
//     request's.
//   - More than maxQuestions at once, or maxStreams, are answered 429.
//
// Client asks from the other side, by any rest.Config.
//
// The package must not import other packages of the kernel: it knows no
// question by itself.
package inspect
