// Package statuspatch serves patches of pods' statuses as node agents send them: a strategic
// merge patch of the status, with the pod's UID beside it or nothing.
//
// # What it owns
//
// Handler takes such a request from before the machinery's handler. The merge works on the
// status alone, and not on the whole pod (merge.go). So does the comparison for managed fields
// (fields.go). The pod that is written shares all but its status and managed fields with the
// one before, which readers have: nobody copies or decodes it.
//
// # What it promises
//
// A patch that is served here has the outcome that the machinery gives it: the same object,
// managed fields, resource version and answer. What is not ordinary goes the machinery's way
// before anything has happened: other patches, options, unknown fields, warnings, refusals by
// validation or admission, and patches that change nothing. So no refusal has words here. A
// test sends the same patches both ways.
//
// # How data passes through
//
// Request → Handler.ordinary (shape of the patch) → storage.Replace, which gives the stored
// pod → merged status, managed fields, admission, validation → one commit → package answers.
//
// It must not import kernel/api, nor a kind: the strategy comes with the registry store.
package statuspatch
