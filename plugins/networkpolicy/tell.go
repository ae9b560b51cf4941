package networkpolicy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

const (
	// reasonBeyond is the reason of events about policies that do not fit.
	reasonBeyond = "NetworkPolicyNotEnforced"
	// sayAgain is how often the same is said about a namespace, sayLeast how often anything is.
	sayAgain = 10 * time.Minute
	sayLeast = time.Minute
	// eventLimit bounds one request.
	eventLimit = 5 * time.Second
	// longestName leaves room for the number in an event's name.
	longestName = 200
)

// words say what a limit counts.
var words = map[program.Limit]string{
	program.Rules:     "rules of the packet filter",
	program.Sets:      "sets of addresses",
	program.Elements:  "addresses in sets",
	program.Selectors: "selectors of peers",
	program.Memory:    "bytes of policies",
}

// teller writes a Warning event about a namespace whose policies do not fit, on the first of
// them. It says little: users make policies, and would make events by them.
type teller struct {
	create func(ctx context.Context, e *corev1.Event) error
	node   string
	budget Budget
	log    *slog.Logger

	mu     sync.Mutex
	beyond map[string][]program.Beyond // by namespace
	wake   chan struct{}
	said   map[string]saying
}

type saying struct {
	text string
	at   time.Time
}

func newTeller(core rest.Interface, node string, budget Budget, log *slog.Logger) *teller {
	return &teller{
		node: node, budget: budget, log: log, wake: make(chan struct{}, 1), said: map[string]saying{},
		create: func(ctx context.Context, e *corev1.Event) error {
			return core.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
		},
	}
}

// tell takes in what does not fit now.
func (t *teller) tell(list []program.Beyond) {
	beyond := map[string][]program.Beyond{}
	for _, b := range list {
		beyond[b.Policy.Namespace] = append(beyond[b.Policy.Namespace], b)
	}
	t.mu.Lock()
	t.beyond = beyond
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run writes events until ctx ends.
func (t *teller) run(ctx context.Context) {
	tick := time.NewTicker(sayLeast)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-tick.C:
		}
		t.mu.Lock()
		beyond := t.beyond
		t.mu.Unlock()
		for namespace := range t.said {
			if beyond[namespace] == nil && time.Since(t.said[namespace].at) >= sayAgain {
				delete(t.said, namespace)
			}
		}
		for namespace, list := range beyond {
			t.say(ctx, namespace, list)
		}
	}
}

func (t *teller) say(ctx context.Context, namespace string, list []program.Beyond) {
	text, last := t.text(namespace, list), t.said[namespace]
	since := time.Since(last.at)
	if last.text != "" && (since < sayLeast || last.text == text && since < sayAgain) {
		return
	}
	t.said[namespace] = saying{text, time.Now()}
	ctx, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	if err := t.create(ctx, t.event(list[0], text)); err != nil && ctx.Err() == nil {
		t.log.Warn("no event says that policies are not enforced", "namespace", namespace, "message", text, "error", err)
	}
}

// text is what is said about a namespace.
func (t *teller) text(namespace string, list []program.Beyond) string {
	first := list[0]
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" %d more policies of the namespace are not enforced.", len(list)-1)
	}
	return fmt.Sprintf("Not enforced on node %s: with this policy, namespace %s needs more than its %d %s. It allows no connection: the pods that it selects are isolated.%s Delete policies, merge them, or raise namespaceBudget.%s of the plugin %s.",
		t.node, namespace, t.budget.of(first.Limit), words[first.Limit], more, first.Limit, Name)
}

func (t *teller) event(b program.Beyond, text string) *corev1.Event {
	now := metav1.Now()
	p := b.Policy
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("%s.%x", p.Name[:min(len(p.Name), longestName)], now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Type:           corev1.EventTypeWarning, Reason: reasonBeyond, Message: text,
		Source: corev1.EventSource{Component: Name, Host: t.node}, ReportingController: Name, ReportingInstance: t.node,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
