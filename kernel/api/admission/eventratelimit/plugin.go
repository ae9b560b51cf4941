package eventratelimit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"
)

// Plugin counts events.
type Plugin struct {
	*admission.Handler
	limits []*limit
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New reads the configuration.
func New(configuration []byte) (*Plugin, error) {
	c, err := Load(configuration)
	if err != nil {
		return nil, err
	}
	return newPlugin(c, clock.RealClock{}), nil
}

func newPlugin(c *Configuration, now clock.PassiveClock) *Plugin {
	p := &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
	for _, l := range c.Limits {
		p.limits = append(p.limits, newLimit(l, now))
	}
	return p
}

// Validate implements admission.ValidationInterface. A dry run writes nothing, and is
// not counted. Each limit counts an event, also one that another limit refuses.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.IsDryRun() || !isEvent(a) {
		return nil
	}
	var reached []error
	for _, l := range p.limits {
		if key := keyOf(l.by, a); !l.bucket(key).TryAccept() {
			reached = append(reached, fmt.Errorf("limit reached on type %v for key %v", l.by, key))
		}
	}
	if err := utilerrors.NewAggregate(reached); err != nil {
		return apierrors.NewTooManyRequestsError(err.Error())
	}
	return nil
}

// isEvent: whatever its version. The resource tells, which the path names.
func isEvent(a admission.Attributes) bool {
	resource := a.GetResource().GroupResource()
	return resource == corev1.Resource("events") || resource == eventsv1.Resource("events")
}
