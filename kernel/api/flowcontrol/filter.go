package flowcontrol

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// Controller shares the seats of the server among the priority levels.
type Controller struct {
	flowcontrol.Interface
	// Tracker knows how many objects there are of each resource.
	Tracker flowcontrolrequest.StorageObjectCountTracker
}

// New makes a controller of so many seats, which reads its objects by the informers.
func New(factory informers.SharedInformerFactory, client kubernetes.Interface, seats int) *Controller {
	return &Controller{
		Interface: flowcontrol.New(factory, client.FlowcontrolV1(), seats),
		Tracker:   flowcontrolrequest.NewStorageObjectCountTracker(),
	}
}

// Before lets requests through to next when they have their seats, and answers
// 429 to those that waited in vain: a quarter of their time at most, and never
// longer than limit.
func (c *Controller) Before(next http.Handler, longRunning request.LongRunningRequestCheck, limit time.Duration) http.Handler {
	estimate := flowcontrolrequest.NewWorkEstimator(c.Tracker.Get, c.GetInterestedWatchCount, flowcontrolrequest.DefaultWorkEstimatorConfig(), c.GetMaxSeats)
	return filters.WithPriorityAndFairness(next, longRunning, c, estimate, limit)
}
