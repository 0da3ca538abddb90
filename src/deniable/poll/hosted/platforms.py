"""The survey software for which there are snippets: how each stores a value, and what its user has
to do."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PLATFORMS", "Platform"]


class Platform(NamedTuple):
    """One kind of survey software."""

    title: str
    ending: str
    """Of the snippet's file."""
    frame: str
    """What surrounds the script: `SCRIPT` and `FIELD` are replaced."""
    steps: tuple[str, ...]
    """What the organiser does: `FIELD` and `SNIPPET` are replaced."""


PLATFORMS = {
    "qualtrics": Platform(
        "Qualtrics",
        "js",
        """Qualtrics.SurveyEngine.addOnReady(function () {
SCRIPT
  const question = this, engine = Qualtrics.SurveyEngine;
  question.disableNextButton();
  const box = question.getQuestionContainer().appendChild(document.createElement("div"));
  deniableAsk(box, (said) => {
    if (engine.setJSEmbeddedData) engine.setJSEmbeddedData("FIELD", said);
    else engine.setEmbeddedData("FIELD", said);
    question.enableNextButton();
  });
});
""",
        (
            "In the survey flow, add an Embedded Data element above all blocks, with the fields"
            " FIELD and __js_FIELD and no value. The second is what the new survey-taking"
            " experience writes.",
            "Add a question of the type Text / Graphic with an empty text, on a page of its own.",
            "Open its JavaScript editor, replace everything in it with the file SNIPPET, and save.",
            "Export the data as CSV with choice text.",
        ),
    ),
    "limesurvey": Platform(
        "LimeSurvey",
        "html",
        """<div id="deniable-FIELD"></div>
<script>
(() => {
SCRIPT
  const start = () => {
    const input = document.getElementById("answer{SGQ}");
    input.hidden = true;
    input.setAttribute("aria-hidden", "true");
    deniableAsk(document.getElementById("deniable-FIELD"), (said) => {
      input.value = said;
      for (const type of ["input", "keyup", "change"]) {
        input.dispatchEvent(new Event(type, { bubbles: true }));
      }
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
</script>
""",
        (
            "Turn off the global setting “Filter HTML for XSS”, or use an account that it does not"
            " apply to.",
            "Add a mandatory question of the type Short free text with the code FIELD.",
            "Switch the editor of its text to source code, and paste the file SNIPPET.",
            "Export the responses as CSV, with question codes as headings.",
        ),
    ),
    "redcap": Platform(
        "REDCap",
        "js",
        """(() => {
SCRIPT
  const start = () => {
    const input = document.querySelector('input[name="FIELD"]');
    if (!input) return;
    input.style.display = "none";
    const box = document.createElement("div");
    input.parentNode.insertBefore(box, input);
    deniableAsk(box, (said) => {
      input.value = said;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
""",
        (
            "Ask the administrator to enable an external module that adds JavaScript to surveys,"
            " such as JavaScript Injector.",
            "Add a required field of the type Text Box with the variable name FIELD.",
            "Let the module load the file SNIPPET on that survey.",
            "Export the records as CSV / Microsoft Excel (raw data).",
        ),
    ),
    "otree": Platform(
        "oTree",
        "html",
        """<input type="hidden" name="FIELD" id="id_FIELD">
<div id="deniable-FIELD"></div>
<script>
(() => {
SCRIPT
  deniableAsk(document.getElementById("deniable-FIELD"), (said) => {
    document.getElementById("id_FIELD").value = said;
  });
})();
</script>
""",
        (
            "Add  FIELD = models.StringField()  to the class Player.",
            "Add  form_model = 'player'  and  form_fields = ['FIELD']  to the page’s class.",
            "Paste the file SNIPPET into the page’s template, before {{ next_button }}.",
            "Export the app’s data as CSV.",
        ),
    ),
    "jspsych": Platform(
        "jsPsych 7 and 8",
        "js",
        """/** A trial that stores what the coins said: { type: DeniableTrial }. */
class DeniableTrial {
  static info = {
    name: "deniable", version: "1.0.0", parameters: {}, data: { FIELD: { type: 1 } },
  };

  constructor(jsPsych) {
    this.jsPsych = jsPsych;
  }

  trial(display) {
SCRIPT
    const box = display.appendChild(document.createElement("div"));
    let said;
    const next = display.appendChild(document.createElement("button"));
    next.textContent = DENIABLE.words.next;
    next.hidden = true;
    next.onclick = () => {
      display.replaceChildren();
      this.jsPsych.finishTrial({ FIELD: said });
    };
    deniableAsk(box, (value) => {
      said = value;
      next.hidden = false;
    });
  }
}
""",
        (
            "Load the file SNIPPET after jsPsych, with a script element of its own.",
            "Add  { type: DeniableTrial }  to the timeline.",
            "Save the data as CSV: jsPsych.data.get().csv().",
        ),
    ),
    "surveyjs": Platform(
        "SurveyJS",
        "js",
        """/** Call it with the survey before it is rendered. */
function deniableQuestion(survey) {
SCRIPT
  survey.onAfterRenderQuestion.add((_, options) => {
    if (options.question.name !== "FIELD") return;
    const box = options.htmlElement.querySelector("[data-deniable]");
    deniableAsk(box, (said) => survey.setValue("FIELD", said));
  });
}
""",
        (
            'Add the element  {"type": "html", "name": "FIELD", "html":'
            ' "<div data-deniable></div>"}  to the survey’s definition.',
            "Load the file SNIPPET, and call  deniableQuestion(survey)  before the survey is"
            " rendered.",
            "Export the results as CSV, or as JSON: a list of what survey.data holds.",
        ),
    ),
}
"""By the name that `deniable poll snippet --for` takes."""
