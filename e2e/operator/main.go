// Operator keeps a ConfigMap for each Shop, as an ordinary operator of
// controller-runtime does: with a cache and its index, leader election, a
// finalizer, owner references, events, and a status by server-side apply. All
// but serve knows nothing of Pintle.
//
// With one argument it is a client, and that is the name that its status says;
// without one it is the process of a plugin.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"pintle.dev/pintle/sdk/controller"
)

const (
	finalizer = "harbour.example/shop"
	byOwner   = "owner"
)

func newShop() *unstructured.Unstructured {
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(schema.GroupVersionKind{Group: "harbour.example", Version: "v1", Kind: "Shop"})
	return shop
}

type reconciler struct {
	client.Client
	name   string
	scheme *runtime.Scheme
	events events.EventRecorder
}

// Reconcile keeps the goods of one shop: a ConfigMap with as many keys as the
// shop has shelves, and a status that counts them.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	shop := newShop()
	if err := r.Get(ctx, req.NamespacedName, shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	goods := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "goods-" + shop.GetName(), Namespace: shop.GetNamespace()}}
	if !shop.GetDeletionTimestamp().IsZero() {
		if err := client.IgnoreNotFound(r.Delete(ctx, goods)); err != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(shop, finalizer) {
			return ctrl.Result{}, r.Update(ctx, shop)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(shop, finalizer) {
		return ctrl.Result{}, r.Update(ctx, shop) // the change comes back as an event
	}
	shelves, _, err := unstructured.NestedInt64(shop.Object, "spec", "shelves")
	if err != nil {
		return ctrl.Result{}, err
	}
	did, err := controllerutil.CreateOrPatch(ctx, r.Client, goods, func() error {
		goods.Data = map[string]string{}
		for i := range shelves {
			goods.Data["shelf-"+strconv.FormatInt(i, 10)] = r.name
		}
		return controllerutil.SetControllerReference(shop, goods, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if did != controllerutil.OperationResultNone {
		r.events.Eventf(shop, goods, corev1.EventTypeNormal, "Stocked", "Stock", "goods %s by %s", did, r.name)
	}
	var mine corev1.ConfigMapList
	if err := r.List(ctx, &mine, client.InNamespace(shop.GetNamespace()), client.MatchingFields{byOwner: shop.GetName()}); err != nil {
		return ctrl.Result{}, err
	}
	filled := 0
	for _, m := range mine.Items {
		filled += len(m.Data)
	}
	status := newShop()
	status.SetName(shop.GetName())
	status.SetNamespace(shop.GetNamespace())
	status.Object["status"] = map[string]any{"filled": int64(filled), "by": r.name}
	return ctrl.Result{}, r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("shop-operator"), client.ForceOwnership)
}

func owner(obj client.Object) []string {
	if by := metav1.GetControllerOf(obj); by != nil && by.Kind == "Shop" {
		return []string{by.Name}
	}
	return nil
}

func run(ctx context.Context, cfg *rest.Config, name string) error {
	lease, renew, retry := 6*time.Second, 4*time.Second, 500*time.Millisecond
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "shop.harbour.example", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true, LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // one that ended may be built again in the same process
	})
	if err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, byOwner, owner); err != nil {
		return err
	}
	r := &reconciler{Client: mgr.GetClient(), name: name, scheme: mgr.GetScheme(), events: mgr.GetEventRecorder("shop-operator")}
	if err := ctrl.NewControllerManagedBy(mgr).For(newShop()).Owns(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// serve is all that makes a plugin of the operator.
func serve() {
	controller.Serve(controller.Controller{Name: "shops", New: func(c *controller.Context) (controller.Runner, error) {
		ctrl.SetLogger(logr.FromSlogHandler(c.Logger.Handler()))
		return controller.RunnerFunc(func(ctx context.Context) error { return run(ctx, c.RESTConfig, c.Name) }), nil
	}})
}

func main() {
	if len(os.Args) < 2 {
		serve()
		return
	}
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
