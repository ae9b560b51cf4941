package disruption

import (
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/scale"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// timeout is how long an evicted pod may take to be deleted before it counts
// as one that stays.
const timeout = 2 * time.Minute

// New builds the controller of PodDisruptionBudgets.
func New(c *controller.Context) (controller.Runner, error) {
	found, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	others := newScales(found, nil)
	scales, err := scale.NewForConfig(c.RESTConfig, others.mapper, dynamicPaths, scale.NewDiscoveryScaleKindResolver(found))
	if err != nil {
		return nil, fmt.Errorf("scale client: %w", err)
	}
	others.client = scales
	return build(c.Client, c.Informers, others, c.Logger), nil
}

type keeper struct {
	*queue.Frame[string] // of budgets
	client               kubernetes.Interface
	marks                *queue.Loop[string] // pods marked for a disruption
	pdbs                 policylisters.PodDisruptionBudgetLister
	pods                 corelisters.PodLister
	finder               *finder
	clock                clock.PassiveClock
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, others *scales, log *slog.Logger) *keeper {
	pods, pdbs := shared.Core().V1().Pods(), shared.Policy().V1().PodDisruptionBudgets()
	k := &keeper{
		client: client, clock: clock.RealClock{},
		pdbs: pdbs.Lister(), pods: pods.Lister(), finder: newFinder(shared, others),
	}
	k.Frame = queue.NewFrame(client, log, "controllermanager", k.sync, queue.Options[string]{Name: "disruption"})
	k.marks = queue.New(log, k.unmark, queue.Options[string]{Name: "stale_pod_disruption"})
	k.Watch(pdbs.Informer(), queue.On(func(_, current *policyv1.PodDisruptionBudget) {
		if current != nil {
			k.Add(queue.Key(current))
		}
	}))
	k.Watch(pods.Informer(), queue.On(k.podChanged))
	for _, informer := range k.finder.informers {
		k.Watch(informer, nil)
	}
	k.Beside(k.marks)
	return k
}

func (k *keeper) podChanged(old, current *corev1.Pod) {
	// The budget that it belonged to counts one less.
	if old != nil && (current == nil || !labels.Equals(old.Labels, current.Labels)) {
		k.addBudgets(old)
	}
	if current != nil {
		k.addBudgets(current)
		if left, marked := k.stale(current); marked {
			k.marks.AddAfter(queue.Key(current), left)
		}
	}
}

// addBudgets queues the budgets of a pod.
func (k *keeper) addBudgets(pod *corev1.Pod) {
	pdbs, err := k.pdbs.PodDisruptionBudgets(pod.Namespace).List(labels.Everything())
	if err != nil {
		return
	}
	var matching []*policyv1.PodDisruptionBudget
	for _, pdb := range pdbs {
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, pdb)
			k.Add(queue.Key(pdb))
		}
	}
	if len(matching) > 1 {
		k.Recorder.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, matching[0].Name)
	}
}
