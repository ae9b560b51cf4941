package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
)

const workers = 5

var gvk = appsv1.SchemeGroupVersion.WithKind("Deployment")

// New builds the controller of Deployments.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentDeploymentSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	built, err := build(c.Client, c.Informers, c.Logger)
	if err != nil {
		return nil, err
	}
	built.SetWorkers(workers)
	return built, nil
}

type deployer struct {
	*queue.Frame[string]
	client      kubernetes.Interface
	deployments cache.Indexer
	sets        cache.Indexer
	pods        cache.Indexer
	clock       clock.PassiveClock
	log         *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, log *slog.Logger) (*deployer, error) {
	deployments := shared.Apps().V1().Deployments().Informer()
	sets := shared.Apps().V1().ReplicaSets().Informer()
	pods := shared.Core().V1().Pods().Informer()
	if err := errors.Join(ownership.Index(sets), ownership.Index(pods)); err != nil {
		return nil, err
	}
	d := &deployer{
		client: client, clock: clock.RealClock{}, log: log,
		deployments: deployments.GetIndexer(), sets: sets.GetIndexer(), pods: pods.GetIndexer(),
	}
	d.Frame = queue.NewFrame(client, log, "deployment-controller", d.sync, queue.Options[string]{Name: "deployment", Workers: workers})
	d.Watch(deployments, queue.Every(d.add))
	d.Watch(sets, queue.On(d.setChanged))
	d.Watch(pods, queue.On(func(old, current *corev1.Pod) {
		if current == nil {
			d.podDeleted(old)
		}
	}))
	return d, nil
}

func (d *deployer) add(dep *appsv1.Deployment) { d.Add(queue.Key(dep)) }

func (d *deployer) lookup(key string) *appsv1.Deployment {
	return ownership.Cached[*appsv1.Deployment](d.deployments, key)
}

func (d *deployer) owner(rs *appsv1.ReplicaSet) *appsv1.Deployment {
	return ownership.Owner[*appsv1.Deployment](d.deployments, gvk.Kind, rs.Namespace, metav1.GetControllerOfNoCopy(rs))
}

func (d *deployer) matching(rs *appsv1.ReplicaSet) {
	for _, dep := range ownership.Adopters(d.deployments, rs, func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }) {
		d.add(dep)
	}
}

func (d *deployer) setChanged(old, rs *appsv1.ReplicaSet) {
	if rs == nil { // deleted
		if dep := d.owner(old); dep != nil {
			d.add(dep)
		}
		return
	}
	if old != nil {
		if old.ResourceVersion == rs.ResourceVersion {
			return
		}
		if was := d.owner(old); was != nil && !metav1.IsControlledBy(rs, was) {
			d.add(was)
		}
	}
	if dep := d.owner(rs); dep != nil {
		d.add(dep)
	} else if metav1.GetControllerOfNoCopy(rs) == nil && rs.DeletionTimestamp == nil {
		d.matching(rs)
	}
}

// podDeleted wakes a deployment of strategy Recreate when the last of its
// pods is gone: only then may the new ones start.
func (d *deployer) podDeleted(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return
	}
	found, there, err := d.sets.GetByKey(pod.Namespace + "/" + ref.Name)
	if err != nil || !there {
		return
	}
	rs, ok := found.(*appsv1.ReplicaSet)
	if !ok || rs.UID != ref.UID {
		return
	}
	dep := d.owner(rs)
	if dep == nil || dep.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return
	}
	sets, err := ownership.Children[*appsv1.ReplicaSet](d.sets, dep.UID)
	if err != nil {
		return
	}
	for _, s := range sets {
		if pods, err := ownership.Children[*corev1.Pod](d.pods, s.UID); err != nil || len(pods) > 0 {
			return
		}
	}
	d.add(dep)
}

// sync works on one deployment.
func (d *deployer) sync(ctx context.Context, key string) error {
	cached := d.lookup(key)
	if cached == nil {
		return nil
	}
	dep := cached.DeepCopy()
	if s := dep.Spec.Selector; s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		d.Recorder.Event(dep, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
		if dep.Status.ObservedGeneration < dep.Generation {
			dep.Status.ObservedGeneration = dep.Generation
			return d.writeStatus(ctx, dep)
		}
		return nil
	}
	sets, err := d.claim(ctx, dep)
	if err != nil {
		return err
	}
	r := &rollout{deployer: d, dep: dep, sets: sets}
	if dep.DeletionTimestamp != nil {
		if err := r.find(ctx, false); err != nil {
			return err
		}
		return r.writeScaled(ctx)
	}
	// The condition stands before anything else is done, so that a pause does
	// not count against the progress deadline.
	if err := r.notePause(ctx); err != nil {
		return err
	}
	if dep.Spec.Paused {
		return r.resize(ctx)
	}
	if number, asked := rollbackTo(dep); asked {
		return r.rollback(ctx, number)
	}
	scaling, err := r.isScaling(ctx)
	if err != nil {
		return err
	}
	if scaling {
		return r.resize(ctx)
	}
	switch dep.Spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx)
	case appsv1.RollingUpdateDeploymentStrategyType:
		return r.roll(ctx)
	}
	return fmt.Errorf("unexpected deployment strategy type: %s", dep.Spec.Strategy.Type)
}

// claim returns the deployment's replica sets, as copies that may be changed.
func (d *deployer) claim(ctx context.Context, dep *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(dep.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("deployment %s/%s has invalid label selector: %w", dep.Namespace, dep.Name, err)
	}
	owned, err := ownership.Children[*appsv1.ReplicaSet](d.sets, dep.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := ownership.Orphans[*appsv1.ReplicaSet](d.sets, dep.Namespace)
	if err != nil {
		return nil, err
	}
	claimed, err := ownership.Claim(ctx, &ownership.Claimer{
		Owner: dep, Kind: gvk, Selector: selector,
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return d.client.AppsV1().Deployments(dep.Namespace).Get(ctx, dep.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			_, err := d.client.AppsV1().ReplicaSets(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}, append(owned, orphans...), nil)
	if err != nil {
		return nil, err
	}
	for i, rs := range claimed {
		claimed[i] = rs.DeepCopy()
	}
	return claimed, nil
}

// writeStatus writes dep's status and its revision, which the status
// endpoint takes as well, and moves dep to the version that resulted.
func (d *deployer) writeStatus(ctx context.Context, dep *appsv1.Deployment) error {
	updated, err := d.client.AppsV1().Deployments(dep.Namespace).UpdateStatus(ctx, dep, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	dep.ResourceVersion = updated.ResourceVersion
	return nil
}
