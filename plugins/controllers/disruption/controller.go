package disruption

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/loop"
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
	client   kubernetes.Interface
	budgets  *loop.Loop
	marks    *loop.Loop // pods marked for a disruption
	pdbs     policylisters.PodDisruptionBudgetLister
	pods     corelisters.PodLister
	finder   *finder
	recorder record.EventRecorder
	clock    clock.PassiveClock
	log      *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, others *scales, log *slog.Logger) *keeper {
	pods, pdbs := shared.Core().V1().Pods(), shared.Policy().V1().PodDisruptionBudgets()
	k := &keeper{
		client: client, clock: clock.RealClock{}, log: log,
		budgets: loop.New("disruption", log), marks: loop.New("stale_pod_disruption", log),
		pdbs: pdbs.Lister(), pods: pods.Lister(), finder: newFinder(shared, others),
	}
	k.budgets.Watch(pdbs.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc:    k.budgets.Add,
		UpdateFunc: func(_, cur any) { k.budgets.Add(cur) },
	})
	k.budgets.Watch(pods.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: k.podChanged,
		UpdateFunc: func(old, cur any) {
			// The budget that it belonged to counts one less.
			if o, ok := old.(*corev1.Pod); ok && !sameLabels(o, cur) {
				k.podChanged(old)
			}
			k.podChanged(cur)
		},
		DeleteFunc: k.podChanged,
	})
	for _, informer := range k.finder.informers {
		k.budgets.Watch(informer, cache.ResourceEventHandlerFuncs{})
	}
	k.marks.Watch(pods.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc:    k.markChanged,
		UpdateFunc: func(_, cur any) { k.markChanged(cur) },
	})
	return k
}

// Run works until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	recorder, stop := loop.Recorder(ctx, k.client, "controllermanager")
	defer stop()
	k.recorder = recorder
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var marksErr error
	wg.Go(func() {
		defer cancel()
		marksErr = k.marks.Run(ctx, 1, k.unmark)
	})
	err := k.budgets.Run(ctx, 1, k.sync)
	cancel()
	wg.Wait()
	if err == nil {
		err = marksErr
	}
	return err
}

func sameLabels(old *corev1.Pod, cur any) bool {
	pod, ok := cur.(*corev1.Pod)
	return ok && labels.Equals(old.Labels, pod.Labels)
}

func (k *keeper) podChanged(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	pdbs, err := k.pdbs.PodDisruptionBudgets(pod.Namespace).List(labels.Everything())
	if err != nil {
		return
	}
	var matching []*policyv1.PodDisruptionBudget
	for _, pdb := range pdbs {
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, pdb)
			k.budgets.Add(pdb)
		}
	}
	if len(matching) > 1 {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, matching[0].Name)
	}
}
