package nodelifecycle

import (
	"golang.org/x/time/rate"
)

const (
	normalRate       = 0.1  // nodes a second
	secondaryRate    = 0.01 // in a large zone that is partly down
	largeZone        = 50   // more nodes than this
	unhealthyPortion = 0.55
)

// zone limits the evictions of one failure zone (NC-6, NC-7).
type zone struct {
	limiter *rate.Limiter
	waiting []string // nodes to taint, in order
}

func newZone() *zone { return &zone{limiter: rate.NewLimiter(normalRate, 1)} }

// evictionRate is the rate of a zone in which ready nodes of all are ready.
func evictionRate(ready, all int) rate.Limit {
	down := all - ready
	if ready == 0 || down <= 2 || float64(down)/float64(all) < unhealthyPortion {
		return normalRate // wholly down: its work should move elsewhere
	}
	if all > largeZone {
		return secondaryRate
	}
	return 0
}
