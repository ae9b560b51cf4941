package resources

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxCSINodeID bounds what a driver calls a node.
const maxCSINodeID = 256

func csiNodeKind() Kind {
	gvk := storagev1.SchemeGroupVersion.WithKind("CSINode")
	return Kind{
		GVK: gvk, Resource: "csinodes", Singular: "csinode",
		New:     func() runtime.Object { return &storagev1.CSINode{} },
		NewList: func() runtime.Object { return &storagev1.CSINodeList{} },
		Strategy: &rules[*storagev1.CSINode]{
			base: base{gvk: gvk}, conditional: true,
			// A status came with the types of 1.37.
			prepareCreate:  func(n *storagev1.CSINode) { n.Status = storagev1.CSINodeStatus{} },
			prepareUpdate:  func(n, old *storagev1.CSINode) { n.Status = old.Status },
			validate:       validateCSINode,
			validateUpdate: validateCSINodeUpdate,
		},
		Columns: cols(nameColumn(), integerColumn("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), ageColumn()),
		Row: row(func(n *storagev1.CSINode) []any {
			return []any{n.Name, int64(len(n.Spec.Drivers)), ageCell(n.CreationTimestamp)}
		}),
	}
}

func validateCSINode(n *storagev1.CSINode) field.ErrorList {
	errs := validateMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	names := sets.Set[string]{}
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], specPath.Child("drivers").Index(i)
		errs = append(errs, validateDriver(d.Name, at.Child("name"))...)
		errs = append(errs, required(at.Child("nodeID"), d.NodeID)...)
		if len(d.NodeID) > maxCSINodeID {
			errs = append(errs, field.Invalid(at.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxCSINodeID)))
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			errs = append(errs, nonNegative(at.Child("allocatable", "count"), int64(*d.Allocatable.Count))...)
		}
		if names.Has(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		names.Insert(d.Name)
		keys := sets.Set[string]{}
		for _, key := range d.TopologyKeys {
			errs = append(errs, required(at, key)...)
			if keys.Has(key) {
				errs = append(errs, field.Duplicate(at, key))
			}
			keys.Insert(key)
			errs = append(errs, invalidAll(at, key, validation.IsQualifiedName(key))...)
		}
	}
	return errs
}

// validateCSINodeUpdate: a driver that stays may only take another number of
// volumes (KEP-4876).
func validateCSINodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	errs := validateCSINode(n)
	for i := range old.Spec.Drivers {
		for j := range n.Spec.Drivers {
			if old.Spec.Drivers[i].Name == n.Spec.Drivers[j].Name {
				was, is := old.Spec.Drivers[i].DeepCopy(), n.Spec.Drivers[j].DeepCopy()
				was.Allocatable, is.Allocatable = nil, nil
				errs = append(errs, apivalidation.ValidateImmutableField(is, was, specPath.Child("drivers"))...)
			}
		}
	}
	return errs
}
