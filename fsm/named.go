package fsm

import (
	"maps"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// tableNamed: kind of what is named, namespace, its name, kind of what names it, the
// name of that → empty. What the definitions of jobs and workflows name beside the jobs
// that steps run, which tableWorkflowJobs has: it can't be deleted as long as they do.
const tableNamed byte = 0x5f

// The kinds of objects in tableNamed. Values are part of the key format.
const (
	namedJob      byte = 'j'
	namedWorkflow byte = 'w'
	namedSecret   byte = 's'
)

var namedKinds = map[byte]string{namedJob: "job", namedWorkflow: "workflow", namedSecret: "secret"}

func (k key) named(kind byte, namespace, name string) key {
	return k.table(tableNamed).u8(kind).name(namespace).name(name)
}

// namer is an object whose definition names others.
type namer struct {
	kind            byte
	namespace, name string
}

// names are the rows that an object has in tableNamed.
type names map[string]bool

func (n names) add(by namer, kind byte, name string) {
	if name != "" && (kind != by.kind || name != by.name) {
		n[string(key{}.named(kind, by.namespace, name).u8(by.kind).name(by.name))] = true
	}
}

func (n names) policy(by namer, p *job.Policy) {
	n.add(by, namedJob, p.CallbackJob)
	n.add(by, namedJob, p.Compensation)
	n.add(by, namedSecret, p.CallbackSecret)
}

// namedByJob are the rows of a job; nil: it is none.
func namedByJob(namespace, name string, spec *job.Spec) names {
	rows := names{}
	if spec != nil {
		rows.policy(namer{namedJob, namespace, name}, &spec.Policy)
	}
	return rows
}

// namedByWorkflow is namedByJob for workflows.
func namedByWorkflow(namespace, name string, spec *job.WorkflowSpec) names {
	rows := names{}
	if spec == nil {
		return rows
	}
	by := namer{namedWorkflow, namespace, name}
	for _, section := range spec.Sections() {
		for i := range section.Steps {
			rows.add(by, namedWorkflow, section.Steps[i].Workflow)
			rows.policy(by, &section.Steps[i].Policy)
		}
	}
	return rows
}

// moveRows replaces rows without a value by others.
func (a *apply) moveRows(was, is map[string]bool) {
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if !is[k] {
			a.delete(key(k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if !was[k] {
			a.set(key(k), nil)
		}
	}
}

// namedBy refuses that what a definition names is deleted.
func (a *apply) namedBy(kind byte, namespace, name string) *job.Error {
	prefix := key{}.named(kind, namespace, name)
	var err *job.Error
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		kr := keyReader{rest: k[len(prefix):]}
		by := namedKinds[kr.u8()]
		err = job.Conflict(namedKinds[kind], "is named by the "+by+" "+strconv.Quote(kr.name())+": change or delete that first", name)
		return false
	})
	return err
}

// named checks that a row is of an object whose definition names another.
func (c *checker) named(k, _ []byte) {
	kr := readKey(k)
	kr.u8()
	namespace, _, kind, by := kr.name(), kr.name(), kr.u8(), kr.name()
	var rows names
	switch kind {
	case namedJob:
		j, _ := GetJob(c.r, namespace, by)
		rows = namedByJob(namespace, by, &j.Spec)
	case namedWorkflow:
		w, _ := GetWorkflow(c.r, namespace, by)
		rows = namedByWorkflow(namespace, by, w.Spec)
	}
	c.want(kr.done() && rows[string(k)], "row %x: %s does not name it", k, by)
}

// names checks that what an object names knows of it.
func (c *checker) names(rows names) {
	for k := range rows {
		c.want(c.has(key(k)), "row %x is not there", k)
	}
}
