// Package horizontalpodautoscaler scales what a HorizontalPodAutoscaler names, so that
// its metrics stay at their targets.
//
// # What it owns
//
// The number of replicas of scale targets, through their scale subresource, and the
// status of autoscalers. It remembers per autoscaler what it recommended and how it
// scaled (history.go); after a start it knows the present size alone.
//
// # What it promises
//
// The counts, conditions and events are those of Kubernetes 1.36. Every autoscaler is
// looked at once a period, whatever happens in between. A number that an adapter of
// metrics answers, however wrong, gives a size within minReplicas and maxReplicas. An
// API of metrics that hangs holds up the autoscalers that need it, and no others.
//
// Data passes: queue → reconcile.go → target.go (the present scale) → proposal.go (a
// size for each metric, by calculator.go on what sources.go fetched) → limits.go
// (stabilisation, rates, bounds) → target.go (the new scale) → status.
//
// It must not import the kernel or another controller.
package horizontalpodautoscaler
