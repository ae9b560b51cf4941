package resourceclaim

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
)

const subsystem = "resourceclaim_controller"

// kube-controller-manager's metrics of this controller, under its names.
var (
	creations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "creates_total", Help: "Attempts to create claims from templates, by result and by administrator access.",
	}, []string{"status", "admin_access"})
	claimsDesc = prometheus.NewDesc(prometheus.BuildFQName("", subsystem, "resource_claims"),
		"Claims by allocation, access for administrators, and source: resource_claim_template, extended_resource, or empty if a user made it.",
		[]string{"allocated", "admin_access", "source"}, nil)
	counted claimCounter
)

func countCreation(claim *resourcev1.ResourceClaim, err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	creations.WithLabelValues(status, strconv.FormatBool(adminAccess(claim))).Inc()
}

// adminAccess says whether a claim asks for devices whoever uses them. Alternatives cannot.
func adminAccess(claim *resourcev1.ResourceClaim) bool {
	for i := range claim.Spec.Devices.Requests {
		if r := claim.Spec.Devices.Requests[i].Exactly; r != nil && r.AdminAccess != nil && *r.AdminAccess {
			return true
		}
	}
	return false
}

// claimCounter counts the claims that the running controller knows when metrics are read.
type claimCounter struct {
	lister atomic.Pointer[resourcelisters.ResourceClaimLister]
}

var _ prometheus.Collector = (*claimCounter)(nil)

// of makes the counter count a lister's claims, until the function is called that it returns.
func (c *claimCounter) of(lister resourcelisters.ResourceClaimLister) func() {
	c.lister.Store(&lister)
	return func() { c.lister.CompareAndSwap(&lister, nil) }
}

// Describe implements prometheus.Collector.
func (c *claimCounter) Describe(ch chan<- *prometheus.Desc) { ch <- claimsDesc }

// Collect implements prometheus.Collector.
func (c *claimCounter) Collect(ch chan<- prometheus.Metric) {
	lister := c.lister.Load()
	if lister == nil {
		return
	}
	claims, err := (*lister).List(labels.Everything())
	if err != nil {
		ch <- prometheus.NewInvalidMetric(claimsDesc, err)
		return
	}
	type kind struct {
		allocated, admin bool
		source           string
	}
	counts := map[kind]int{}
	for _, claim := range claims {
		of := kind{allocated: claim.Status.Allocation != nil, admin: adminAccess(claim)}
		switch {
		case claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true":
			of.source = "extended_resource"
		case claim.Annotations[resourcev1.PodResourceClaimAnnotation] != "":
			of.source = "resource_claim_template"
		}
		counts[of]++
	}
	for of, n := range counts {
		ch <- prometheus.MustNewConstMetric(claimsDesc, prometheus.GaugeValue, float64(n), strconv.FormatBool(of.allocated), strconv.FormatBool(of.admin), of.source)
	}
}
