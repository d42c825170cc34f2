// Package definition reads jobs and what else is defined in files of YAML or
// JSON, checks them, compares them with what a cluster has, writes them to it, and
// writes files of what a cluster has.
//
// The kinds of objects are the rows of one table, kind.go; all else is the same
// for each. A definition's fields are those of the API's JSON, by the same names.
package definition
