package apiservices

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	typed "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"pintle.dev/pintle/kernel/plugin/groupversions"
	"pintle.dev/pintle/kernel/reasons"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Reasons of the condition Available.
const (
	reasonReady    = "PluginReady"
	reasonNotReady = "PluginNotAvailable"
)

// Wanted is a group version that a plugin in use serves.
type Wanted struct {
	Plugin       string
	GroupVersion groupversions.GroupVersion
	// Fault is why it is not served now; nil: it is.
	Fault error
}

// Writer makes the API's APIServices those of plugins. It belongs to one goroutine.
type Writer struct {
	client typed.APIServicesGetter
	// kernels tells the groups that the kernel has versions of.
	kernels func(group string) bool
	// idle: nothing was wanted the last time, and nothing is left.
	idle bool
}

// New returns a writer that has written nothing.
func New(client typed.APIServicesGetter, kernels func(group string) bool) *Writer {
	return &Writer{client: client, kernels: kernels}
}

// Write makes, changes and deletes APIServices. refused says, by plugin, which of its
// group versions somebody else has.
func (w *Writer) Write(ctx context.Context, wanted []Wanted) (refused map[string][]string, err error) {
	if len(wanted) == 0 && w.idle {
		return nil, nil
	}
	list, err := w.client.APIServices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("APIServices of plugins: %w", err)
	}
	there := map[string]*apiregistrationv1.APIService{}
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	refused = map[string][]string{}
	var faults []error
	taken := w.share(wanted, there)
	for _, each := range wanted {
		name := each.GroupVersion.Name()
		why := ""
		switch owner := taken[name]; {
		case w.kernels(each.GroupVersion.Group):
			why = fmt.Sprintf("group %s is Kubernetes' own, and the kernel serves it", each.GroupVersion.Group)
		case owner != each.Plugin:
			why = fmt.Sprintf("%s is served by plugin %s", each.GroupVersion, owner)
		default:
			why = ownerOf(there[name])
		}
		if why != "" {
			refused[each.Plugin] = append(refused[each.Plugin], why)
			continue
		}
		if err := w.put(ctx, there[name], each); err != nil {
			faults = append(faults, fmt.Errorf("APIService %s of plugin %s: %w", name, each.Plugin, err))
		}
	}
	for name, o := range there {
		if PluginOf(o) == "" || slices.ContainsFunc(wanted, func(each Wanted) bool { return each.GroupVersion.Name() == name }) {
			continue
		}
		err := w.client.APIServices().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, fmt.Errorf("delete APIService %s of plugin %s, which is not in use: %w", name, PluginOf(o), err))
		}
	}
	w.idle = len(wanted) == 0 && len(faults) == 0
	return refused, errors.Join(faults...)
}

// Forget is for when another kernel writes: what there is then is not known.
func (w *Writer) Forget() { w.idle = false }

// share says which plugin has each group version, by the name of its APIService: who has
// it already, or the first in the list.
func (w *Writer) share(wanted []Wanted, there map[string]*apiregistrationv1.APIService) map[string]string {
	taken := map[string]string{}
	for _, each := range wanted {
		name := each.GroupVersion.Name()
		if o := there[name]; taken[name] == "" || o != nil && PluginOf(o) == each.Plugin {
			taken[name] = each.Plugin
		}
	}
	return taken
}

// PluginOf is the plugin that serves an APIService; empty: none does.
func PluginOf(o *apiregistrationv1.APIService) string {
	if o.Spec.Service != nil {
		return ""
	}
	return o.Labels[v1alpha1.PluginLabel]
}

// ownerOf says who else has a group version; empty: nobody has, or a plugin.
func ownerOf(o *apiregistrationv1.APIService) string {
	switch {
	case o == nil || PluginOf(o) != "":
		return ""
	case o.Spec.Service != nil:
		return fmt.Sprintf("%s/%s is served by service %s/%s, by APIService %s", o.Spec.Group, o.Spec.Version, o.Spec.Service.Namespace, o.Spec.Service.Name, o.Name)
	case o.Labels[autoregister.AutoRegisterManagedLabel] == "true":
		return fmt.Sprintf("%s/%s is served by a CustomResourceDefinition", o.Spec.Group, o.Spec.Version)
	}
	return fmt.Sprintf("%s/%s is taken by APIService %s", o.Spec.Group, o.Spec.Version, o.Name)
}

// put makes an APIService what is wanted; old is nil where there is none.
func (w *Writer) put(ctx context.Context, old *apiregistrationv1.APIService, each Wanted) error {
	group, version := each.GroupVersion.Priorities()
	spec := apiregistrationv1.APIServiceSpec{
		Group: each.GroupVersion.Group, Version: each.GroupVersion.Version, GroupPriorityMinimum: group, VersionPriority: version,
	}
	var err error
	switch {
	case old == nil:
		o := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: each.GroupVersion.Name(), Labels: map[string]string{v1alpha1.PluginLabel: each.Plugin}}, Spec: spec}
		if old, err = w.client.APIServices().Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	case old.Labels[v1alpha1.PluginLabel] != each.Plugin || old.Spec.GroupPriorityMinimum != group || old.Spec.VersionPriority != version:
		next := old.DeepCopy()
		next.Spec = spec
		metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.PluginLabel, each.Plugin)
		if old, err = w.client.APIServices().Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update: %w", err)
		}
	}
	want := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: reasonReady, Message: "plugin " + each.Plugin + " serves it",
	}
	if each.Fault != nil {
		want.Status, want.Reason, want.Message = apiregistrationv1.ConditionFalse, reasonNotReady, reasons.Text(each.Fault.Error())
	}
	if c := helper.GetAPIServiceConditionByType(old, apiregistrationv1.Available); c != nil && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message {
		return nil
	}
	next := old.DeepCopy()
	helper.SetAPIServiceCondition(next, want)
	if _, err := w.client.APIServices().UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	return nil
}
