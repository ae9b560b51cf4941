package layer2

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	reasonAnnounced = "AddressAnnounced"
	reasonInUse     = "AddressInUse"
	// sayAgain is how often the same is said about an address, sayLeast how often anything is:
	// machines of the link could make events by what they send.
	sayAgain = 10 * time.Minute
	sayLeast = time.Minute
	// eventLimit bounds one request, mostEvents what waits for it, longestName a part of an
	// event's name.
	eventLimit  = 5 * time.Second
	mostEvents  = 64
	longestName = 200
)

// events writes events of services. Its run is one goroutine's, what it is told another's.
type events struct {
	create func(ctx context.Context, e *corev1.Event) error
	node   string
	log    *slog.Logger
	queue  chan *corev1.Event
	said   map[netip.Addr]saying
}

type saying struct {
	text string
	at   time.Time
}

func newEvents(core rest.Interface, node string, log *slog.Logger) *events {
	return &events{
		node: node, log: log, queue: make(chan *corev1.Event, mostEvents), said: map[netip.Addr]saying{},
		create: func(ctx context.Context, e *corev1.Event) error {
			return core.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
		},
	}
}

func (e *events) announced(ip netip.Addr, s *corev1.Service) {
	e.say(ip, s, corev1.EventTypeNormal, reasonAnnounced, fmt.Sprintf("Node %s announces %s on its network", e.node, ip))
}

func (e *events) inUse(ip netip.Addr, s *corev1.Service, by net.HardwareAddr) {
	e.say(ip, s, corev1.EventTypeWarning, reasonInUse, fmt.Sprintf("The machine %s on the network of node %s has %s, which is not announced as long as it answers. Take it away there, or give the service another address", by, e.node, ip))
}

// say queues an event, unless the same was said a while ago or something else just now.
func (e *events) say(ip netip.Addr, s *corev1.Service, kind, reason, text string) {
	now := time.Now()
	last, before := e.said[ip]
	if since := now.Sub(last.at); before && (last.text == text && since < sayAgain || last.text != text && kind == corev1.EventTypeNormal && since < sayLeast) {
		return
	}
	for other, old := range e.said {
		if now.Sub(old.at) >= sayAgain {
			delete(e.said, other)
		}
	}
	e.said[ip] = saying{text, now}
	e.log.Info("address of a load balancer", "service", s.Namespace+"/"+s.Name, "message", text)
	stamp := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s.%x", s.Name[:min(len(s.Name), longestName)], now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Type:           kind, Reason: reason, Message: text,
		Source: corev1.EventSource{Component: Name, Host: e.node}, ReportingController: Name, ReportingInstance: e.node,
		FirstTimestamp: stamp, LastTimestamp: stamp, Count: 1,
	}
	select {
	case e.queue <- event:
	default: // the log has it
	}
}

// run writes what is queued until ctx ends.
func (e *events) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			within, cancel := context.WithTimeout(ctx, eventLimit)
			if err := e.create(within, event); err != nil && ctx.Err() == nil {
				e.log.Warn("an event of a service was not written", "service", event.Namespace+"/"+event.InvolvedObject.Name, "message", event.Message, "error", err)
			}
			cancel()
		}
	}
}
