package rbac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const aggregator = "clusterrole-aggregation-controller"

// Aggregator fills the rules of ClusterRoles that have an aggregationRule with
// those of the roles it selects, sorted by role name, each rule once.
type Aggregator struct {
	client rbacclient.ClusterRolesGetter
	roles  rbaclisters.ClusterRoleLister
	synced cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[string]
	log    *slog.Logger
}

// NewAggregator registers with the informer, which the caller starts.
func NewAggregator(client rbacclient.ClusterRolesGetter, roles rbacinformers.ClusterRoleInformer, log *slog.Logger) (*Aggregator, error) {
	a := &Aggregator{
		client: client,
		roles:  roles.Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		log:    log,
	}
	all := func(any) { a.enqueue() }
	registration, err := roles.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: all, DeleteFunc: all, UpdateFunc: func(any, any) { a.enqueue() },
	})
	if err != nil {
		return nil, fmt.Errorf("aggregate cluster roles: %w", err)
	}
	a.synced = registration.HasSynced
	return a, nil
}

// Run aggregates until the context ends.
func (a *Aggregator) Run(ctx context.Context) error {
	var worker sync.WaitGroup
	worker.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), a.synced) {
			return
		}
		a.enqueue()
		for a.next(ctx) {
		}
	})
	<-ctx.Done()
	a.queue.ShutDown()
	worker.Wait()
	return nil
}

// enqueue puts all aggregated roles on the queue: any role may be part of any.
func (a *Aggregator) enqueue() {
	// Before the first list is complete, partial sets would be written.
	if !a.synced() {
		return
	}
	all, err := a.roles.List(labels.Everything())
	if err != nil {
		return // a lister over memory does not fail
	}
	for _, role := range all {
		if role.AggregationRule != nil {
			a.queue.Add(role.Name)
		}
	}
}

func (a *Aggregator) next(ctx context.Context) bool {
	name, stop := a.queue.Get()
	if stop {
		return false
	}
	defer a.queue.Done(name)
	if err := a.sync(ctx, name); err != nil && !errors.Is(err, context.Canceled) {
		a.log.Warn("aggregate cluster role", "name", name, "err", err)
		a.queue.AddRateLimited(name)
		return true
	}
	a.queue.Forget(name)
	return true
}

func (a *Aggregator) sync(ctx context.Context, name string) error {
	role, err := a.roles.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if role.AggregationRule == nil {
		return nil
	}
	rules, err := a.gather(role)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return nil
	}
	apply := applyrbacv1.ClusterRole(name)
	for i := range rules {
		rule := &rules[i]
		apply.WithRules(applyrbacv1.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithVerbs(rule.Verbs...).WithResourceNames(rule.ResourceNames...).WithNonResourceURLs(rule.NonResourceURLs...))
	}
	_, err = a.client.ClusterRoles().Apply(ctx, apply, metav1.ApplyOptions{FieldManager: aggregator, Force: true})
	return err
}

func (a *Aggregator) gather(role *rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		selected, err := a.roles.List(selector)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(selected, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
		for _, part := range selected {
			if part.Name == role.Name {
				continue
			}
			for j := range part.Rules {
				if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return SameRule(&r, &part.Rules[j]) }) {
					rules = append(rules, part.Rules[j])
				}
			}
		}
	}
	return rules, nil
}
