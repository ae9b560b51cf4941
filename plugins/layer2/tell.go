package layer2

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	reasonAnnounced = "AddressAnnounced"
	reasonInUse     = "AddressInUse"
	// sayAgain is how often the same is said about a machine that has an address, sayLeast how
	// often anything of one reason is said about an address: machines of the link could make
	// events by what they send.
	sayAgain = 10 * time.Minute
	sayLeast = time.Minute
	// sayOnce is for what is said until it is over.
	sayOnce = time.Duration(math.MaxInt64)
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
	queue  chan queued

	mu   sync.Mutex
	said map[about]saying
}

// about is what is bounded in time, whatever the words are.
type about struct {
	ip     netip.Addr
	reason string
}

// saying is what was said last.
type saying struct {
	text   string // empty: it is over, or was not written
	logged string
	at     time.Time
	again  time.Duration // after which the same is said again
}

type queued struct {
	about
	event *corev1.Event
}

func newEvents(core rest.Interface, node string, log *slog.Logger) *events {
	return &events{
		node: node, log: log, queue: make(chan queued, mostEvents), said: map[about]saying{},
		create: func(ctx context.Context, e *corev1.Event) error {
			return core.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
		},
	}
}

func (e *events) announced(ip netip.Addr, s *corev1.Service) {
	e.say(about{ip, reasonAnnounced}, s, corev1.EventTypeNormal, sayOnce, fmt.Sprintf("Node %s announces %s on its network", e.node, ip))
}

func (e *events) inUse(ip netip.Addr, s *corev1.Service, by net.HardwareAddr) {
	e.say(about{ip, reasonInUse}, s, corev1.EventTypeWarning, sayAgain, fmt.Sprintf("The machine %s on the network of node %s has %s, which is not announced as long as it answers. Take it away there, or give the service another address", by, e.node, ip))
}

func (e *events) taken(ip netip.Addr, s *corev1.Service, node string) {
	e.say(about{ip, reasonInUse}, s, corev1.EventTypeWarning, sayOnce, fmt.Sprintf("The status of node %s says that it has %s, which is not announced therefore. Give the service another address", node, ip))
}

// forget implements teller. When something was said last stays known.
func (e *events) forget(ip netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, reason := range []string{reasonAnnounced, reasonInUse} {
		if last, has := e.said[about{ip, reason}]; has {
			last.text, last.logged = "", ""
			e.said[about{ip, reason}] = last
		}
	}
}

// say queues an event, unless the same was said a while ago or one of its reason just now.
func (e *events) say(a about, s *corev1.Service, kind string, again time.Duration, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	last := e.said[a]
	if since := now.Sub(last.at); since < sayLeast || last.text == text && since < last.again {
		return
	}
	for other, old := range e.said {
		if since := now.Sub(old.at); since >= sayLeast && (old.text == "" && old.logged == "" || since >= old.again) {
			delete(e.said, other)
		}
	}
	if last.logged != text {
		e.log.Info("address of a load balancer", "service", s.Namespace+"/"+s.Name, "message", text)
	}
	e.said[a] = saying{text: text, logged: text, at: now, again: again}
	stamp := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s.%x", s.Name[:min(len(s.Name), longestName)], now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Type:           kind, Reason: a.reason, Message: text,
		Source: corev1.EventSource{Component: Name, Host: e.node}, ReportingController: Name, ReportingInstance: e.node,
		FirstTimestamp: stamp, LastTimestamp: stamp, Count: 1,
	}
	select {
	case e.queue <- queued{a, event}:
	default:
		e.unsay(a, text)
	}
}

// unsay has something said again that was not written. e.mu is held.
func (e *events) unsay(a about, text string) {
	if last := e.said[a]; last.text == text {
		last.text = ""
		e.said[a] = last
	}
}

// run writes what is queued until ctx ends. It logs the first event that is not written, and
// the first afterwards that is.
func (e *events) run(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-e.queue:
			within, cancel := context.WithTimeout(ctx, eventLimit)
			err := e.create(within, q.event)
			cancel()
			switch {
			case err != nil && ctx.Err() == nil:
				e.mu.Lock()
				e.unsay(q.about, q.event.Message)
				e.mu.Unlock()
				if !failed {
					e.log.Warn("an event of a service was not written; it is tried again as long as it is so", "service", q.event.Namespace+"/"+q.event.InvolvedObject.Name, "message", q.event.Message, "error", err)
				}
				failed = true
			case err == nil && failed:
				failed = false
				e.log.Info("events of services are written again")
			}
		}
	}
}
